"""Who registers the metrics APIs: the twin's server, or an adapter that a program installs."""

from typing import Any

from twin.cluster.base.api_extension import APISERVICES, ApiExtension, ApiGroup

GROUP = "external.metrics.k8s.io"
NAME = f"v1beta1.{GROUP}"


class FakeKube:
    """An API server with APIServices."""

    def __init__(self, *items: dict[str, Any]) -> None:
        self.items = {item["metadata"]["name"]: item for item in items}
        self.managers: dict[str, str] = {}

    def known(self) -> list[dict[str, Any]]:
        return list(self.items.values())

    def list(self, path: str) -> list[dict[str, Any]]:
        assert path == APISERVICES
        return self.known()

    def delete(self, path: str) -> None:
        del self.items[path.removeprefix(f"{APISERVICES}/")]

    def apply(self, obj: dict[str, Any], manager: str) -> None:
        if obj["kind"] == "APIService":
            self.items[obj["metadata"]["name"]] = obj
            self.managers[obj["metadata"]["name"]] = manager


class Context:
    def __init__(self, kube: FakeKube) -> None:
        self.kube = kube


def server(kube: FakeKube) -> Any:
    context: Any = Context(kube)
    return ApiExtension(
        context,
        ApiGroup(GROUP, "v1beta1", "externalmetrics", "ExternalMetricValueList"),
        lambda *_: {},
    )


def test_without_an_adapter_the_twin_registers_its_own_server() -> None:
    kube = FakeKube()
    server(kube)._register(4000, kube.known(), is_left=False)
    assert kube.items[NAME]["spec"]["service"]["port"] == 4000


def test_a_programs_registration_meets_no_field_of_another_manager() -> None:
    kube = FakeKube()
    twin = server(kube)
    twin._register(4000, kube.known(), is_left=False)
    twin._register(4000, kube.known(), is_left=True)  # a program bound the adapter's role
    assert kube.items == {}  # so that an apply by any manager owns every field


def test_a_programs_registration_is_left_alone() -> None:
    own = {"metadata": {"name": NAME}, "spec": {"service": {"name": "adapter", "namespace": "m"}}}
    kube = FakeKube(own)
    for is_left in (True, False):
        server(kube)._register(4000, kube.known(), is_left=is_left)
        assert kube.items == {NAME: own}
        assert kube.managers == {}


def test_what_a_program_registered_a_moment_ago_is_left_alone() -> None:
    own = {"metadata": {"name": NAME}, "spec": {"service": {"name": "adapter", "namespace": "m"}}}
    before = FakeKube()
    server(before)._register(4000, [], is_left=False)
    kube = FakeKube(own)
    for is_left, seen in ((True, before.known()), (False, [])):  # the watch is late
        server(kube)._register(4000, seen, is_left=is_left)
        assert (kube.items, kube.managers) == ({NAME: own}, {})
