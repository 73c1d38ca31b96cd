"""How long a creation waits for a kind that the cluster does not serve."""

import threading
from typing import Any

import pytest

from twin.providers.kubernetes.manifests import applying
from twin.providers.kubernetes.manifests.applying import How
from twin.providers.kubernetes.manifests.errors import ProviderError
from twin.wire.kube import KubeError

CLASS = {"apiVersion": "cloud.google.com/v1", "kind": "ComputeClass", "metadata": {"name": "c"}}
DEFINITION = {"spec": {"group": "cloud.google.com", "names": {"kind": "ComputeClass"}}}


class Kube:
    """A cluster that serves the kind after some attempts."""

    def __init__(self, attempts: int, defined: bool) -> None:
        self.left = attempts
        self._defined = defined

    def resource(self, api_version: str, kind: str) -> Any:
        self.left -= 1
        if self.left >= 0:
            raise KubeError(404, "NoSuchKind", f"no matches for kind {kind} in {api_version}", {})
        return "computeclasses", False

    def list(self, path: str) -> list[dict[str, Any]]:
        assert path.endswith("/customresourcedefinitions")
        return [DEFINITION] if self._defined else []

    def apply(self, obj: Any, **_: Any) -> Any:
        return obj


def create(kube: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(applying, "_TRY_AGAIN_SECONDS", 0.01)
    how = How("manager", upsert=True, kind_seconds=0.03)
    return applying.create(kube, CLASS, how, threading.Event(), lambda _: None)


def test_a_kind_that_nobody_defined_is_waited_for_on_the_clock_of_the_twin(monkeypatch):
    with pytest.raises(ProviderError, match="ComputeClass"):
        create(Kube(1_000, defined=False), monkeypatch)


def test_a_kind_whose_definition_exists_is_waited_for_in_real_time(monkeypatch):
    assert create(Kube(20, defined=True), monkeypatch)["metadata"]["name"] == "c"
