"""What the first command on a machine prints while it obtains its tools."""

import pytest

from scripts.shared import tool_setup
from twin.toolchain import Module, needed_by


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(tool_setup.time, "monotonic", lambda: now[0])
    return now


def test_a_build_of_a_quarter_of_an_hour_says_how_long_it_takes_in_ten_lines(
    monkeypatch: pytest.MonkeyPatch, clock: list[float], capsys: pytest.CaptureFixture[str]
):
    wanted = list(needed_by("engine", "cluster"))
    left = wanted.copy()

    def build(modules, announce, report):
        report("Building them from source: no connection to github.com")
        for module in modules:
            for done in range(100):
                clock[0] += 900 / len(modules) / 100
                announce(module.name, done, 100, f"compiling {module.name}")
            left.remove(module)

    def missing(_wanted: list[Module]) -> list[Module]:
        return left.copy()

    monkeypatch.setattr(tool_setup, "missing", missing)
    monkeypatch.setattr(tool_setup, "provide", build)
    tool_setup.obtain_modules(wanted)
    lines = capsys.readouterr().out.splitlines()
    assert "10 to 15 minutes on two cores" in lines[0]
    assert all(f"{module.name} {module.version}" in lines[0] for module in wanted)
    assert lines[-1] == "The tools are ready after 15:00"
    first = wanted[1].name  # an eighth of the time each
    assert lines[2] == f"  1 of {len(wanted)} tools, 2:00; {first}: compiling {first} 6/100"
    assert len(lines) <= 10
