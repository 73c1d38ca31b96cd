"""Memorystore for Valkey: errors, and outputs of an instance."""

from typing import Any

import pytest

from twin.providers.gcp.effects import valkey
from twin.providers.gcp.resources.memorystore import INSTANCE, POLICY
from twin.tests.unit.gcp.conftest import Cloud, Made, Refused

NETWORK = "gcp:compute/network:Network"
SUBNETWORK = "gcp:compute/subnetwork:Subnetwork"
VPC = "projects/acme/global/networks/vpc"


@pytest.fixture(name="network")
def a_network(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(valkey, "_start", lambda *_: None)
    cloud.paths.pki.joinpath("ca.crt").write_text("CA")
    cloud.create(NETWORK, "vpc", {"name": "vpc", "autoCreateSubnetworks": False})
    inputs = {"name": "s", "network": VPC, "region": "us-east5", "ipCidrRange": "10.0.0.0/24"}
    return cloud.create(SUBNETWORK, "s", inputs).id


def policy(cloud: Cloud, subnetwork: str, **fields: Any) -> Made:
    inputs = {
        "name": "valkey",
        "location": "us-east5",
        "network": VPC,
        "serviceClass": "gcp-memorystore",
        "pscConfig": {"subnetworks": [subnetwork]},
        **fields,
    }
    return cloud.create(POLICY, str(inputs["name"]), inputs)


def instance(cloud: Cloud, **fields: Any) -> Made:
    inputs = {
        "instanceId": "limits",
        "location": "us-east5",
        "shardCount": 1,
        "mode": "CLUSTER_DISABLED",
        "desiredAutoCreatedEndpoints": [{"network": VPC, "projectId": "acme"}],
        "deletionProtectionEnabled": False,
        **fields,
    }
    return cloud.create(INSTANCE, str(inputs["instanceId"]), inputs)


def test_an_instance_reports_its_endpoints_and_what_it_chose(cloud: Cloud, network: str) -> None:
    policy(cloud, network)
    made = instance(cloud)
    assert made.id == "projects/acme/locations/us-east5/instances/limits"
    (endpoint,) = made.outputs["endpoints"]
    primary, reader = (c["pscAutoConnection"] for c in endpoint["connections"])
    assert primary["connectionType"] == "CONNECTION_TYPE_PRIMARY"
    assert reader["connectionType"] == "CONNECTION_TYPE_READER"
    assert primary["ipAddress"].startswith("127.36.")
    assert (primary["port"], primary["network"], primary["projectId"]) == (6379, VPC, "acme")
    assert made.outputs["discoveryEndpoints"] == []
    assert made.outputs["state"] == "ACTIVE"
    assert made.outputs["nodeType"] == "HIGHMEM_MEDIUM"
    assert made.outputs["managedServerCas"] == []


def test_the_deprecated_connections_report_a_discovery_endpoint(cloud: Cloud, network: str) -> None:
    policy(cloud, network)
    wanted = [{"network": VPC, "projectId": "acme"}]
    made = instance(
        cloud,
        mode="CLUSTER",
        desiredAutoCreatedEndpoints=None,
        desiredPscAutoConnections=wanted,
        transitEncryptionMode="SERVER_AUTHENTICATION",
    )
    (discovery,) = made.outputs["discoveryEndpoints"]
    (connection,) = made.outputs["pscAutoConnections"]
    assert discovery == {"address": connection["ipAddress"], "network": VPC, "port": 6379}
    assert connection["connectionType"] == "CONNECTION_TYPE_DISCOVERY"
    assert made.outputs["managedServerCas"] == [{"caCerts": [{"certificates": ["CA"]}]}]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"instanceId": "abc"}, "instanceId: must be 4 to 63 lowercase letters"),
        ({"instanceId": "Limits"}, "instanceId: must be 4 to 63 lowercase letters"),
        ({"nodeType": "HUGE"}, "nodeType: must be one of SHARED_CORE_NANO, CUSTOM_PICO"),
        ({"engineVersion": "VALKEY_6_0"}, "engineVersion: must be one of VALKEY_7_2"),
        ({"replicaCount": 6}, "replicaCount: must be 0 to 5, got 6"),
        ({"shardCount": 2}, "shardCount: must be 1 with mode CLUSTER_DISABLED, got 2"),
        (
            {"mode": "CLUSTER", "shardCount": 100, "replicaCount": 2},
            "shardCount: must be at least 1, and with its replicas at most 250 nodes, got 100",
        ),
        ({"authorizationMode": "IAM_AUTH"}, "authorizationMode: the twin checks no credentials"),
        ({"location": "us-central1"}, "class gcp-memorystore in us-central1, got none"),
    ],
)
def test_what_google_refuses_of_an_instance_is_refused(
    cloud: Cloud, network: str, fields: dict[str, Any], message: str
) -> None:
    policy(cloud, network)
    with pytest.raises(Refused, match=message):
        instance(cloud, **fields)
    assert cloud.world.store.find(INSTANCE) == []


def test_an_instance_needs_a_policy_of_memorystores_class(cloud: Cloud, network: str) -> None:
    policy(cloud, network, serviceClass="google-cloud-sql")
    with pytest.raises(Refused, match="vpc must have a service connection policy of class gcp-mem"):
        instance(cloud)


def test_a_network_has_one_policy_of_a_class_in_a_region(cloud: Cloud, network: str) -> None:
    policy(cloud, network)
    with pytest.raises(Refused, match="network vpc has the policy"):
        policy(cloud, network, name="second")


def test_a_policy_stays_while_an_instance_has_its_connections(cloud: Cloud, network: str) -> None:
    first, made = policy(cloud, network), instance(cloud)
    with pytest.raises(Refused, match=r"has connections of .*/instances/limits"):
        cloud.delete(first)
    cloud.delete(made)
    cloud.delete(first)
    assert cloud.world.store.find(POLICY) == []


def test_an_instance_is_protected_unless_it_says_otherwise(cloud: Cloud, network: str) -> None:
    policy(cloud, network)
    made = instance(cloud, deletionProtectionEnabled=None)
    with pytest.raises(Refused, match="set deletionProtectionEnabled to false first"):
        cloud.delete(made)


def test_a_change_is_checked_as_a_new_instance_is(cloud: Cloud, network: str) -> None:
    policy(cloud, network)
    made = instance(cloud)
    changed = {**made.inputs, "replicaCount": 6}
    with pytest.raises(Refused, match="replicaCount: must be 0 to 5, got 6"):
        cloud.update(made, changed)
    assert cloud.update(made, {**made.inputs, "replicaCount": 2})["replicaCount"] == 2
