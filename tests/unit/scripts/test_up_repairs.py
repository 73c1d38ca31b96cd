"""What `up` does before it updates a stack."""

from typing import Any

import pytest

from scripts.operate import up


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    made: list[str] = []

    def note(name: str, result: Any = None) -> None:
        monkeypatch.setattr(up, name, lambda *_: made.append(name) or result)

    note("recover")
    note("of_twin", [])
    note("drift_of", ["Deployment models/llama"])
    note("close")
    monkeypatch.setattr(up.daemon, "repair", lambda _: made.append("daemon") or [])
    monkeypatch.setattr(up, "repair", lambda *given: made.append(f"repair {given[2]}"))
    return made


def test_a_state_that_is_not_true_is_repaired_when_no_other_run_changes_it(
    calls: list[str],
) -> None:
    class Engine:
        """The engine of a stack that another run has just changed."""

        paths = None

        def ensure_stack(self, name: str) -> None:
            calls.append(f"ensure {name}")

        def wait_for_others(self, name: str) -> None:
            calls.append(f"wait {name}")

        def resources_of(self, _name: str) -> list[Any]:
            return []

    engine: Any = Engine()
    assert up._prepared(engine, "local") is engine
    assert calls == [
        "ensure local",
        "wait local",
        "daemon",
        "recover",
        "of_twin",
        "drift_of",
        "repair ['Deployment models/llama']",
        "close",
    ]
