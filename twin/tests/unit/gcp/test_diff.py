"""Changes of resources, including replacements."""

from typing import Any

import pytest

from twin.providers.gcp.checks.diff import changes
from twin.providers.gcp.schema import resource
from twin.wire.property_values import UNKNOWN

CLUSTER = "gcp:container/cluster:Cluster"
POOL = "gcp:container/nodePool:NodePool"
SERVICE = "gcp:cloudrunv2/service:Service"
SUBSCRIPTION = "gcp:pubsub/subscription:Subscription"
BUCKET = "gcp:storage/bucket:Bucket"


def compare(token: str, old: dict[str, Any], new: dict[str, Any], *ignored: str) -> dict[str, bool]:
    known = resource(token)
    assert known is not None
    return {item.path: item.replaces for item in changes(known, old, new, ignored)}


@pytest.mark.parametrize(
    ("token", "old", "new", "expected"),
    [
        (CLUSTER, {"name": "a"}, {"name": "b"}, {"name": True}),
        (CLUSTER, {"location": "us-east5"}, {"location": "us-east1"}, {"location": True}),
        (
            CLUSTER,
            {"releaseChannel": {"channel": "RAPID"}},
            {"releaseChannel": {"channel": "REGULAR"}},
            {"releaseChannel.channel": False},
        ),
        (CLUSTER, {"enableAutopilot": True}, {}, {"enableAutopilot": True}),
        (
            CLUSTER,
            {"enableL4IlbSubsetting": False},
            {"enableL4IlbSubsetting": True},
            {"enableL4IlbSubsetting": False},
        ),
        (
            CLUSTER,
            {"nodePools": [{"name": "a"}]},
            {"nodePools": [{"name": "a"}, {"name": "b"}]},
            {"nodePools[1]": True},
        ),
        (
            CLUSTER,
            {"resourceLabels": {"a": "1"}},
            {"resourceLabels": {"a": "2"}},
            {"resourceLabels.a": False},
        ),
        (
            POOL,
            {"nodeConfig": {"spot": False}},
            {"nodeConfig": {"spot": True}},
            {"nodeConfig.spot": True},
        ),
        (
            POOL,
            {"nodeConfig": {"machineType": "g2-standard-4"}},
            {"nodeConfig": {"machineType": "g2-standard-8"}},
            {"nodeConfig.machineType": False},
        ),
        (
            POOL,
            {"nodeConfig": {}},
            {"nodeConfig": {"reservationAffinity": {"consumeReservationType": "ANY_RESERVATION"}}},
            {
                "nodeConfig.reservationAffinity": True,
                "nodeConfig.reservationAffinity.consumeReservationType": True,
            },
        ),
        (POOL, {"nodeCount": 1}, {"nodeCount": 2}, {"nodeCount": False}),
        (
            BUCKET,
            {"versioning": {"enabled": True}},
            {"versioning": {"enabled": False}},
            {"versioning.enabled": False},
        ),
        (BUCKET, {"name": "b"}, {"name": UNKNOWN}, {"name": True}),
        (
            "gcp:projects/iAMMember:IAMMember",
            {"role": "roles/viewer"},
            {"role": "roles/editor"},
            {"role": True},
        ),
    ],
)
def test_a_change_says_whether_it_replaces(
    token: str, old: dict[str, Any], new: dict[str, Any], expected: dict[str, bool]
) -> None:
    assert compare(token, old, new) == expected


@pytest.mark.parametrize(
    ("token", "old", "new"),
    [
        (POOL, {"nodeConfig": {"machineType": "e2-medium"}}, {}),
        (CLUSTER, {"nodeLocations": ["us-east5-a"]}, {}),
        (CLUSTER, {"subnetwork": "s", "network": "projects/p/global/networks/n"}, {"network": "n"}),
        (
            CLUSTER,
            {"network": "https://www.googleapis.com/compute/v1/projects/p/global/networks/n"},
            {"network": "projects/p/global/networks/n"},
        ),
        (CLUSTER, {"nodeLocations": ["a", "b"]}, {"nodeLocations": ["b", "a"]}),
        (BUCKET, {"location": "US-EAST5"}, {"location": "us-east5"}),
        (BUCKET, {"forceDestroy": False}, {}),
        (BUCKET, {}, {"requesterPays": False}),
        (
            "gcp:monitoring/dashboard:Dashboard",
            {"dashboardJson": '{"a": 1}'},
            {"dashboardJson": '{"a":1}'},
        ),
    ],
)
def test_what_means_the_same_to_google_is_no_change(
    token: str, old: dict[str, Any], new: dict[str, Any]
) -> None:
    assert compare(token, old, new) == {}


LABEL = "cloud.google.com/compute-class"
RETRY = {"minimumBackoff": "10s", "maximumBackoff": "600s"}


def limits(**given: str) -> dict[str, Any]:
    return {"template": {"containers": [{"image": "i", "resources": {"limits": given}}]}}


@pytest.mark.parametrize(
    ("token", "old", "new", "expected"),
    [
        (
            POOL,
            {"nodeConfig": {"labels": {LABEL: "a", "b": "c"}}},
            {"nodeConfig": {"labels": {"b": "c"}}},
            {f'nodeConfig.labels["{LABEL}"]': False},
        ),
        (
            POOL,
            {"nodeConfig": {"metadata": {"a": "b", "c": "d"}}},
            {"nodeConfig": {"metadata": {"a": "b"}}},
            {"nodeConfig.metadata.c": True},
        ),
        (
            SERVICE,
            limits(cpu="1", memory="1Gi"),
            limits(cpu="1"),
            {"template.containers[0].resources.limits.memory": False},
        ),
        (SERVICE, limits(cpu="1", memory="1Gi"), limits(memory="1Gi"), {}),
        (
            POOL,
            {"nodeConfig": {"resourceLabels": {"goog-gke-node": "", "a": "b"}}},
            {"nodeConfig": {"resourceLabels": {"a": "b"}}},
            {},
        ),
        (POOL, {"nodeConfig": {"labels": {"a": "b"}}}, {"nodeConfig": {}}, {}),
    ],
)
def test_a_key_gone_from_a_map_is_a_difference_unless_google_adds_it(
    token: str, old: dict[str, Any], new: dict[str, Any], expected: dict[str, bool]
) -> None:
    assert compare(token, old, new) == expected


def test_a_block_of_computed_properties_can_be_removed() -> None:
    assert compare(SUBSCRIPTION, {"retryPolicy": RETRY}, {}) == {"retryPolicy": False}
    defaults = {"nodeConfigDefaults": {"loggingVariant": "DEFAULT"}}
    removed = compare(CLUSTER, {"nodePoolDefaults": defaults}, {"nodePoolDefaults": {}})
    assert removed == {"nodePoolDefaults.nodeConfigDefaults": False}


def test_ignored_properties_do_not_differ() -> None:
    old, new = {"nodeCount": 1, "version": "1"}, {"nodeCount": 5, "version": "2"}
    assert compare(POOL, old, new, "nodeCount") == {"version": False}
    labels = ({"resourceLabels": {"a": "1"}}, {"resourceLabels": {"a": "2"}})
    assert compare(CLUSTER, *labels, "resourceLabels") == {}
    taints = {"nodeConfig": {"taints": [{"key": "a", "value": "b", "effect": "NO_SCHEDULE"}]}}
    assert compare(POOL, {"nodeConfig": {}}, taints, "nodeConfig.taints") == {}


def test_a_replacement_with_a_name_of_the_users_choice_deletes_first(cloud: Any) -> None:
    made = cloud.create("gcp:compute/network:Network", "net", {"name": "own"})
    found = cloud.diff(made, {"name": "own", "autoCreateSubnetworks": False})
    assert list(found.replaces) == ["autoCreateSubnetworks"]
    assert found.deleteBeforeReplace


def test_a_replacement_with_a_name_of_the_providers_creates_first(cloud: Any) -> None:
    made = cloud.create("gcp:compute/network:Network", "net", {})
    new = {"name": made.outputs["name"], "autoCreateSubnetworks": False}
    assert not cloud.diff(made, new).deleteBeforeReplace


def test_the_detailed_diff_has_the_engines_kinds(cloud: Any) -> None:
    made = cloud.create("gcp:storage/bucket:Bucket", "b", {"location": "us-east5", "name": "b"})
    found = cloud.diff(made, {"location": "us-east1", "name": "b", "labels": {"a": "b"}})
    kinds = {path: item.kind for path, item in found.detailedDiff.items()}
    property_diff = next(iter(found.detailedDiff.values()))
    assert kinds == {
        "location": property_diff.UPDATE_REPLACE,
        "labels.a": property_diff.ADD,
    }


def test_inputs_applied_as_they_are_make_no_difference_for_every_resource_of_a_network(
    cloud: Any,
) -> None:
    inputs = {"location": "us-east5", "name": "b", "labels": {"env": "dev"}}
    made = cloud.create("gcp:storage/bucket:Bucket", "b", inputs)
    assert not cloud.diff(made, inputs).detailedDiff
