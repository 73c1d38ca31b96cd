"""When the node pool controller looks at nodes."""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from twin.cluster.nodes import pools
from twin.wire.kube import KubeError


class Impatient(threading.Event):
    """Waits a hundredth of the time."""

    def wait(self, timeout: float | None = None) -> bool:
        return super().wait(None if timeout is None else timeout / 100)


class Nodes:
    """A cluster whose nodes change once, and whose API server does not answer the first time."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self.lists: list[str] = []

    def watch(self, path: str, stop: threading.Event, selector: str | None):
        del path, selector
        yield "SYNCED", {}
        while not stop.wait(1.0):
            yield "TICK", {}

    def list(self, path: str, **_: Any) -> list[Any]:
        if not self.lists:
            self.lists.append("refused")
            raise KubeError(503, "ServiceUnavailable", f"{path}: try again", {})
        self.lists.append("answered")
        self._stop.set()
        return []


def test_nodes_that_changed_are_listed_again_if_the_first_list_failed(tmp_path: Path, monkeypatch):
    idle = SimpleNamespace(groups={}, recover=lambda: None, tick=lambda: None)
    monkeypatch.setattr(pools, "Provisioner", lambda *_: idle)
    stop = Impatient()
    nodes = Nodes(stop)
    ctx: Any = SimpleNamespace(dir=tmp_path, watches=nodes, kube=nodes)
    thread = threading.Thread(target=pools.PoolController(ctx).run, args=(stop,), daemon=True)
    thread.start()
    thread.join(10)
    stop.set()
    assert nodes.lists == ["refused", "answered"]
