"""Cloud resources of a Gateway: creation, deletion, and remains of a deleted cluster."""

from typing import Any

import pytest

from twin.cluster.base.context import ClusterSpec
from twin.cluster.gateway import cloud_objects
from twin.cluster.gateway.cloud_objects import (
    FINALIZER,
    NEG_FINALIZER,
    RULES_ANNOTATION,
    CloudObjects,
)
from twin.cluster.gateway.translation.model import Backend, GatewayModel
from twin.cluster.gateway.translation.objects import Key
from twin.host.paths import TwinPaths
from twin.providers.gcp.resources.identity import project_number
from twin.providers.gcp.resources.refusals import check_delete
from twin.providers.gcp.schema import Resource, resource
from twin.wire.kube import KubeError
from twin.wire.property_values import CloudError
from twin.world.store import Record, Store, Use, new_record

KEY = ("models", "gateway")
RULE = "gcp:compute/forwardingRule:ForwardingRule"
NETWORK = "gcp:compute/network:Network"
CLUSTER = "gcp:container/cluster:Cluster"
NET = "projects/p/global/networks/net"
SPEC = ClusterSpec("p", "us-central1", "main", ("us-central1-a", "us-central1-b"), False, "1", "u")
MODEL = GatewayModel(*KEY, "127.32.0.1", backends=(Backend("pool/models/llama", ()),))


class FakeKube:
    """The parts of an API server that the controller uses; finalizers delay deletions."""

    def __init__(self) -> None:
        self.groups: dict[str, dict[str, Any]] = {}
        self.gateway: dict[str, Any] = {
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "Gateway",
            "metadata": {"namespace": KEY[0], "name": KEY[1]},
            "spec": {"gatewayClassName": "gke-l7-rilb"},
        }

    def path_of(self, obj: dict[str, Any]) -> str:
        return str(obj["kind"])

    def post(self, path: str, body: dict[str, Any]) -> None:
        assert path == "ServiceNetworkEndpointGroup"
        if body["metadata"]["name"] in self.groups:
            raise KubeError(409, "AlreadyExists", "", {})
        self.groups[body["metadata"]["name"]] = body

    def patch(self, path: str, body: dict[str, Any], *_: str, **__: str) -> None:
        metadata = self.gateway["metadata"]
        if path != "Gateway":
            metadata = self.groups[path.rpartition("/")[2]]["metadata"]
        metadata.update(body["metadata"])

    def list(self, _: str) -> list[dict[str, Any]]:
        return list(self.groups.values())

    def delete(self, path: str) -> None:
        name = path.rpartition("/")[2]
        assert not self.groups[name]["metadata"]["finalizers"]
        del self.groups[name]


class Place:
    """A cluster with one Gateway, in a cloud with its network."""

    def __init__(self, paths: TwinPaths) -> None:
        self.store = Store(paths.cloud_db)
        self.now = 0.0
        self.kube = FakeKube()
        kube: Any = self.kube
        self.objects = CloudObjects(paths, SPEC, kube)
        name = "projects/p/locations/us-central1/clusters/main"
        for token, identifier, inputs in ((NETWORK, NET, {}), (CLUSTER, name, {"network": NET})):
            record = new_record(
                token, identifier, identifier.rpartition("/")[2], "p", "urn", inputs, {}
            )
            self.store.add(record, [])

    def reconcile(
        self,
        *,
        served: bool = True,
        reached: bool = False,
        addresses: dict[str, str] | None = None,
    ) -> bool:
        models: dict[Key, GatewayModel] = {KEY: MODEL} if served else {}
        from_afar = {KEY} if reached else set()
        return self.objects.reconcile({KEY: self.kube.gateway}, models, from_afar, addresses)

    def wait(self, seconds: float) -> None:
        """Let time pass, on the twin's clock."""
        self.now += seconds

    def kinds(self) -> list[str]:
        """Return the resources that GKE created, by type."""
        return sorted(row.type.rpartition(":")[2] for row in self.store.all() if not row.urn)

    def delete_network(self) -> None:
        """Raise Google's error for the deletion of the network."""
        known, record = resource(NETWORK), self.store.get(NETWORK, NET)
        assert isinstance(known, Resource)
        assert isinstance(record, Record)
        check_delete(known, record, self.store)


@pytest.fixture
def place(tmp_path, monkeypatch) -> Place:
    """A cluster whose clock the test turns."""
    made = Place(TwinPaths(tmp_path / "twin"))
    monkeypatch.setattr(cloud_objects.time, "monotonic", lambda: made.now)
    return made


ALL = [
    "Firewall", "ForwardingRule", "NetworkEndpointGroup", "NetworkEndpointGroup",
    "RegionBackendService", "RegionHealthCheck", "RegionTargetHttpProxy", "RegionUrlMap",
]  # fmt: skip


def test_a_gateway_has_a_load_balancer_a_firewall_rule_and_a_group_in_each_zone(place):
    assert place.reconcile() is False
    assert place.kinds() == ALL
    assert place.kube.gateway["metadata"]["finalizers"] == [FINALIZER]
    (group,) = place.kube.groups.values()
    assert group["metadata"]["namespace"] == "models"
    assert group["metadata"]["finalizers"] == [NEG_FINALIZER]
    place.reconcile()
    assert place.kinds() == ALL


def test_a_cluster_that_goes_first_leaves_a_network_that_cannot_be_deleted(place):
    place.reconcile()
    place.store.remove(CLUSTER, "projects/p/locations/us-central1/clusters/main")
    with pytest.raises(CloudError, match=r"'projects/p/global/networks/net' is already being used"):
        place.delete_network()
    for row in place.store.all():
        if not row.urn:
            place.store.remove(row.type, row.id)
    place.delete_network()


def test_a_deleted_gateway_stays_until_its_load_balancer_is_gone(place):
    place.reconcile()
    place.kube.gateway["metadata"]["deletionTimestamp"] = "now"
    assert place.reconcile(served=False) is True
    assert place.kinds() == ALL
    place.wait(1.0)  # 100 times faster: 60 s of Google's clock are over, 120 are not
    place.reconcile(served=False)
    assert place.kinds() == ["NetworkEndpointGroup", "NetworkEndpointGroup"]
    assert place.kube.gateway["metadata"]["finalizers"] == []


def test_endpoint_groups_go_two_minutes_later_and_with_them_what_holds_their_namespace(place):
    place.reconcile()
    place.kube.gateway["metadata"]["deletionTimestamp"] = "now"
    place.reconcile(served=False)
    place.wait(1.3)
    place.reconcile(served=False)
    assert (place.kinds(), place.kube.groups) == ([], {})
    place.delete_network()


def test_a_gateway_that_is_served_again_keeps_its_groups(place):
    place.reconcile()
    place.reconcile(served=False)
    place.wait(1.0)
    place.reconcile()
    place.reconcile(served=False)
    place.wait(1.0)
    place.reconcile(served=False)
    assert place.kinds() == ALL


def test_a_control_plane_that_no_cloud_knows_has_nothing_there(tmp_path):
    kube: Any = FakeKube()
    objects = CloudObjects(TwinPaths(tmp_path / "twin"), SPEC, kube)
    assert objects.reconcile({KEY: kube.gateway}, {KEY: MODEL}) is False
    assert "finalizers" not in kube.gateway["metadata"]


def test_a_gateway_says_which_forwarding_rule_it_has(place):
    place.reconcile(reached=True)
    named = place.kube.gateway["metadata"]["annotations"][RULES_ANNOTATION]
    (rule,) = place.store.find("gcp:compute/forwardingRule:ForwardingRule")
    where, _, name = named.rpartition("/")
    assert (where, name) == (
        f"/projects/{project_number('p')}/regions/us-central1/forwardingRules",
        rule.name,
    )
    assert rule.outputs["ipAddress"] == "127.32.0.1"
    assert rule.outputs["loadBalancingScheme"] == "INTERNAL_MANAGED"
    assert rule.outputs["allowGlobalAccess"] is True


def test_a_policy_that_changes_the_access_of_a_rule_makes_a_rule_of_another_name(place):
    place.reconcile()
    (before,) = place.store.find(RULE)
    place.reconcile(reached=True)
    (after,) = place.store.find(RULE)
    assert after.name != before.name
    assert (before.outputs["allowGlobalAccess"], after.outputs["allowGlobalAccess"]) == (
        False,
        True,
    )
    assert place.kube.gateway["metadata"]["annotations"][RULES_ANNOTATION].endswith(after.name)


def test_a_rule_that_an_attachment_publishes_keeps_its_access(place):
    place.reconcile()
    (before,) = place.store.find(RULE)
    token = "gcp:compute/serviceAttachment:ServiceAttachment"
    attachment = new_record(token, "projects/p/a", "a", "p", "urn", {}, {})
    place.store.add(attachment, [Use(RULE, before.id, blocks=True)])
    place.reconcile(reached=True)
    found = {each.name: each.outputs["allowGlobalAccess"] for each in place.store.find(RULE)}
    assert found.pop(before.name) is False
    assert list(found.values()) == [True]


def test_a_gateway_over_all_clusters_has_a_global_load_balancer_with_a_rule_for_each_address(place):
    regions = {"us-central1": "127.65.255.252", "europe-west4": "127.67.255.252"}
    spec = place.kube.gateway["spec"]
    spec["gatewayClassName"] = "gke-l7-cross-regional-internal-managed-mc"
    spec["addresses"] = [{"value": region} for region in regions]
    assert place.reconcile(addresses=regions) is False
    assert place.kinds() == [
        "BackendService", "Firewall", "GlobalForwardingRule", "GlobalForwardingRule", "HealthCheck",
        "NetworkEndpointGroup", "NetworkEndpointGroup", "TargetHttpProxy", "URLMap",
    ]  # fmt: skip
    rules = place.store.find("gcp:compute/globalForwardingRule:GlobalForwardingRule")
    assert [each.outputs["ipAddress"] for each in rules] == list(regions.values())
    assert place.kube.gateway["metadata"]["annotations"][RULES_ANNOTATION] == ", ".join(
        f"/projects/{project_number('p')}/global/forwardingRules/{each.name}" for each in rules
    )
    del spec["addresses"][1]
    place.reconcile(addresses=regions)
    (rule,) = place.store.find(rules[0].type)
    assert rule == rules[0]
    place.kube.gateway["metadata"]["deletionTimestamp"] = "now"
    place.reconcile(served=False)
    place.wait(1.0)
    place.reconcile(served=False)
    assert place.kinds() == ["NetworkEndpointGroup", "NetworkEndpointGroup"]
