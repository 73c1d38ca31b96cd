"""Errors of Check, and their messages."""

from typing import Any

import pytest

from twin.providers.gcp import settings
from twin.providers.gcp.checks.validate import validate_inputs
from twin.wire import rpc
from twin.wire.property_values import SECRET_SIGNATURE, SIGNATURE_KEY, UNKNOWN
from twin.wire.rpc import provider_pb2 as pb

CLUSTER = "gcp:container/cluster:Cluster"
POOL = "gcp:container/nodePool:NodePool"
NETWORK = "gcp:compute/network:Network"
SUBNETWORK = "gcp:compute/subnetwork:Subnetwork"
BUCKET = "gcp:storage/bucket:Bucket"
MEMBER = "gcp:storage/bucketIAMMember:BucketIAMMember"


def reasons(token: str, inputs: dict[str, Any]) -> dict[str, str]:
    return {failure.path: failure.reason for failure in validate_inputs(token, inputs)}


def cluster(**more: Any) -> dict[str, Any]:
    return {"location": "us-central1", "initialNodeCount": 1, **more}


@pytest.mark.parametrize(
    ("token", "inputs", "path", "reason"),
    [
        (CLUSTER, cluster(locatoin="x"), "locatoin", "did you mean location?"),
        (CLUSTER, cluster(node_config={}), "node_config", "did you mean nodeConfig?"),
        (
            CLUSTER,
            cluster(nodeConfig={"machineTyp": "x"}),
            "nodeConfig.machineTyp",
            "did you mean machineType?",
        ),
        (CLUSTER, cluster(endpoint="1.2.3.4"), "endpoint", "set by the provider only"),
        (CLUSTER, cluster(nodeConfig={"spot": "yes"}), "nodeConfig.spot", "true or false"),
        (CLUSTER, cluster(initialNodeCount=1.5), "initialNodeCount", "a whole number"),
        (CLUSTER, cluster(nodeLocations="us-central1-a"), "nodeLocations", "must be a list"),
        (CLUSTER, cluster(releaseChannel="RAPID"), "releaseChannel", "must be an object"),
        (CLUSTER, cluster(resourceLabels={"a": 1}), "resourceLabels.a", "must be a string"),
        (
            CLUSTER,
            cluster(releaseChannel={"channel": "FAST"}),
            "releaseChannel.channel",
            "must be one of UNSPECIFIED, RAPID, REGULAR, STABLE, EXTENDED, got 'FAST'",
        ),
        (
            CLUSTER,
            cluster(nodeConfig={"taints": [{"key": "a", "value": "b", "effect": "NO"}]}),
            "nodeConfig.taints[0].effect",
            "must be one of",
        ),
        (CLUSTER, cluster(name="a" * 41), "name", "0 to 40 characters"),
        (CLUSTER, cluster(addonsConfig={}), "addonsConfig", "at least one of"),
        (CLUSTER, cluster(maintenancePolicy={}), "maintenancePolicy", "must be given"),
        (
            CLUSTER,
            cluster(ipAllocationPolicy={}, clusterIpv4Cidr=""),
            "ipAllocationPolicy",
            "clusterIpv4Cidr",
        ),
        (CLUSTER, cluster(nodeLocations=["us-central1"]), "nodeLocations", "own location"),
        (CLUSTER, {"location": "us-central1"}, "initialNodeCount", "is required"),
        (
            CLUSTER,
            cluster(privateClusterConfig={"masterIpv4CidrBlock": "10.0.0.0/27"}),
            "privateClusterConfig.masterIpv4CidrBlock",
            "/28",
        ),
        (NETWORK, {"name": "Net"}, "name", "must match the pattern"),
        (NETWORK, {"routingMode": "ANY"}, "routingMode", "REGIONAL, GLOBAL"),
        (SUBNETWORK, {"ipCidrRange": "10.0.0.0/8"}, "network", "is required"),
        (SUBNETWORK, {"network": "n", "ipCidrRange": "10.0.0"}, "ipCidrRange", "CIDR notation"),
        (
            POOL,
            {"cluster": "c", "nodeCount": 1, "initialNodeCount": 2},
            "initialNodeCount",
            "nodeCount",
        ),
        (
            POOL,
            {"cluster": "c", "autoscaling": {"minNodeCount": -1}},
            "autoscaling.minNodeCount",
            "at least 0",
        ),
        (
            POOL,
            {"cluster": "c", "upgradeSettings": {"strategy": "BLUE_GREEN", "maxSurge": 1}},
            "upgradeSettings.maxSurge",
            "needs strategy SURGE",
        ),
        (
            POOL,
            {"cluster": "c", "upgradeSettings": {"blueGreenSettings": {}}},
            "upgradeSettings.blueGreenSettings",
            "BLUE_GREEN",
        ),
        (BUCKET, {"location": "US", "labels": {"A": "b"}}, "labels", "the key 'A'"),
        (
            BUCKET,
            {"location": "US", "lifecycleRules": [{"action": {"type": "Delete"}}]},
            "lifecycleRules[0].condition",
            "is required",
        ),
        (
            BUCKET,
            {"location": "US", "ipFilter": {"mode": "Enabled", "allowCrossOrgVpcs": True}},
            "ipFilter.allowCrossOrgVpcs",
            "needs ipFilter.vpcNetworkSources",
        ),
        (MEMBER, {"bucket": "b", "role": "r", "member": "nobody"}, "member", "a principal"),
        (
            "gcp:serviceaccount/account:Account",
            {"accountId": "abc"},
            "accountId",
            "6 to 30 characters",
        ),
        (
            "gcp:kms/cryptoKey:CryptoKey",
            {"keyRing": "k", "rotationPeriod": "60s"},
            "rotationPeriod",
            "86400s",
        ),
        ("gcp:projects/service:Service", {"service": "container"}, "service", "domain name"),
        (
            "gcp:compute/routerNat:RouterNat",
            {"router": "r", "sourceSubnetworkIpRangesToNat": "X"},
            "sourceSubnetworkIpRangesToNat",
            "must be one of",
        ),
        ("gcp:compute/firewall:Firewall", {"network": "n"}, "sourceRanges", "sourceTags"),
        ("gcp:compute/sSLPolicy:SSLPolicy", {"profile": "CUSTOM"}, "customFeatures", "is required"),
        (
            "gcp:compute/healthCheck:HealthCheck",
            {"httpHealthCheck": {"portSpecification": "USE_SERVING_PORT", "port": 80}},
            "httpHealthCheck.port",
            "USE_SERVING_PORT",
        ),
        (
            "gcp:compute/securityPolicy:SecurityPolicy",
            {"rules": [{"action": "allow", "priority": 1, "match": {}}] * 2},
            "rules[1].priority",
            "is the priority of rules[0] too",
        ),
        (
            "gcp:monitoring/dashboard:Dashboard",
            {"dashboardJson": "{"},
            "dashboardJson",
            "must be JSON",
        ),
        (
            "gcp:dns/recordSet:RecordSet",
            {"managedZone": "z", "name": "a.b", "type": "A"},
            "name",
            "end with a dot",
        ),
    ],
)
def test_a_wrong_input_is_refused_by_its_path(
    token: str, inputs: dict[str, Any], path: str, reason: str
) -> None:
    found = reasons(token, inputs)
    assert path in found, found
    assert reason in found[path]


def test_autopilot_conflicts_with_node_pool_settings_even_when_they_are_false() -> None:
    found = reasons(
        CLUSTER,
        {"location": "us-central1", "enableAutopilot": True, "removeDefaultNodePool": False},
    )
    assert found["removeDefaultNodePool"] == "cannot be given together with enableAutopilot"


def test_an_unknown_value_conflicts_with_nothing() -> None:
    inputs = {"location": "us-central1", "enableAutopilot": True, "removeDefaultNodePool": UNKNOWN}
    assert reasons(CLUSTER, inputs) == {}


def test_an_unknown_value_satisfies_what_is_required_and_has_any_type() -> None:
    assert reasons(SUBNETWORK, {"network": UNKNOWN, "ipCidrRange": UNKNOWN}) == {}


def test_a_secret_is_checked_like_its_value() -> None:
    secret = {SIGNATURE_KEY: SECRET_SIGNATURE, "value": "FAST"}
    assert "routingMode" in reasons(NETWORK, {"routingMode": secret})


def test_content_and_source_of_an_object_exclude_each_other() -> None:
    token = "gcp:storage/bucketObject:BucketObject"
    asset = {SIGNATURE_KEY: "c44067f5952c0a294b673a41bacd8c17", "text": "x"}
    base = {"bucket": "b", "name": "n"}
    assert reasons(token, {**base, "content": "x"}) == {}
    assert reasons(token, {**base, "source": asset}) == {}
    assert "one of content and source must be given" in reasons(token, base).values()
    both = reasons(token, {**base, "content": "x", "source": asset})
    assert "only one of content and source may be given" in both.values()


def test_a_source_that_is_no_asset_is_refused() -> None:
    token = "gcp:storage/bucketObject:BucketObject"
    found = reasons(token, {"bucket": "b", "source": "file.txt"})
    assert found["source"] == "must be an asset or archive, got 'file.txt'"


def test_a_property_that_only_the_sdk_knows_is_taken_and_checked_below() -> None:
    good = {"cluster": "c", "bestEffortProvisioning": {"enabled": True, "minProvisionNodes": 1}}
    assert reasons(POOL, good) == {}
    bad = {"cluster": "c", "bestEffortProvisioning": {"enabled": True, "minNodes": 1}}
    assert "bestEffortProvisioning.minNodes" in reasons(POOL, bad)


def test_a_type_that_only_the_sdk_knows_is_checked_for_names_and_required() -> None:
    found = reasons("gcp:compute/instance:Instance", {"machineTyp": "n1-standard-1"})
    assert "did you mean machineType?" in found["machineTyp"]
    assert found["bootDisk"] == "is required"


def test_a_type_that_nobody_knows_is_refused() -> None:
    assert "unknown resource type gcp:foo/bar:Bar" in reasons("gcp:foo/bar:Bar", {})[""]


def test_a_well_formed_cluster_passes() -> None:
    inputs = {
        "name": "acme-dev-a",
        "location": "us-east5",
        "initialNodeCount": 1,
        "removeDefaultNodePool": True,
        "network": UNKNOWN,
        "subnetwork": UNKNOWN,
        "datapathProvider": "ADVANCED_DATAPATH",
        "ipAllocationPolicy": {
            "clusterSecondaryRangeName": "pods",
            "servicesSecondaryRangeName": "services",
        },
        "privateClusterConfig": {"enablePrivateNodes": True},
        "workloadIdentityConfig": {"workloadPool": "acme.svc.id.goog"},
        "releaseChannel": {"channel": "REGULAR"},
        "gatewayApiConfig": {"channel": "CHANNEL_STANDARD"},
        "maintenancePolicy": {
            "recurringWindow": {
                "startTime": "2026-01-01T02:00:00Z",
                "endTime": "2026-01-01T06:00:00Z",
                "recurrence": "FREQ=DAILY",
            }
        },
    }
    assert reasons(CLUSTER, inputs) == {}


def test_check_names_the_property_and_repeats_it_in_the_reason(cloud: Any) -> None:
    found = cloud.failures(NETWORK, {"routingMod": "GLOBAL"})
    assert found == {
        "routingMod": "routingMod: is not a property of this resource; did you mean routingMode?"
    }


def test_provider_configuration_with_an_unknown_key_is_refused(cloud: Any) -> None:
    def keys(**settings: str) -> list[str]:
        request = pb.CheckRequest(news=rpc.to_struct(settings))
        return [f.property for f in cloud.provider.CheckConfig(request, cloud.context).failures]

    assert keys(project="acme", version="10.2.0") == []
    assert keys(project="acme", projet="x") == ["projet"]
    assert keys(computeCustomEndpoint="http://127.0.0.1") == []


@pytest.mark.parametrize(
    ("configured", "warns"),
    [
        ({}, True),
        ({"disableGlobalProjectWarning": "false"}, True),
        ({"disableGlobalProjectWarning": "true"}, False),
        ({"project": "acme"}, False),
    ],
)
def test_a_provider_without_a_project_warns_unless_it_is_told_not_to(configured, warns) -> None:
    assert settings.lacks_project(settings.parse(configured)) is warns
