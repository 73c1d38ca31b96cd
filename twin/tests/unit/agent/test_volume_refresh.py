"""Files of a running pod follow the Secret they come from."""

import base64
from pathlib import Path
from typing import Any, cast

from twin.cluster.agent.launching.volumes import Volumes, is_refreshed
from twin.wire.kube import Kube

POD = {
    "metadata": {"name": "p", "namespace": "n"},
    "spec": {"volumes": [{"name": "cert", "secret": {"secretName": "s"}}]},
}


class OneSecret:
    def __init__(self) -> None:
        self.data: dict[str, str] = {}

    def get(self, _path: str) -> dict[str, Any]:
        data = {key: base64.b64encode(text.encode()).decode() for key, text in self.data.items()}
        return {"kind": "Secret", "data": data}


def test_a_key_that_is_written_later_appears_and_changes(tmp_path: Path):
    secret = OneSecret()
    volumes = Volumes(
        cast(Kube, secret), POD, tmp_path / "own", tmp_path / "shared", lambda *_: tmp_path
    )
    folder = volumes.make()["cert"]
    assert list(folder.iterdir()) == []
    for text in ("first", "second"):
        secret.data["tls.crt"] = text
        volumes.refresh()
        assert (folder / "tls.crt").read_text() == text


def test_only_pods_with_such_volumes_are_refreshed():
    assert is_refreshed(POD)
    assert not is_refreshed({"spec": {"volumes": [{"name": "tmp", "emptyDir": {}}]}})
