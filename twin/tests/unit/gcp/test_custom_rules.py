"""Rules that the official provider has in code: one case for each rule that the data name."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from twin.providers.gcp.checks.diff import changes
from twin.providers.gcp.checks.planned_values import unknown_until_applied
from twin.providers.gcp.checks.validate import validate_inputs
from twin.providers.gcp.resources.computed_outputs import created, planned
from twin.providers.gcp.schema import resource, tokens
from twin.tests.unit.gcp.conftest import Made, Refused
from twin.world.store import new_record

Inputs = dict[str, Any]
Case = Callable[[Any], None]
ACCOUNT = "gcp:serviceaccount/account:Account"
ATTACHMENT = "projects/p/regions/us-east5/serviceAttachments/"
BUCKET = "gcp:storage/bucket:Bucket"
CHANNEL = "gcp:monitoring/notificationChannel:NotificationChannel"
CHECK = "gcp:compute/healthCheck:HealthCheck"
CLUSTER = "gcp:container/cluster:Cluster"
DISK = "gcp:compute/disk:Disk"
FIREWALL = "gcp:compute/firewall:Firewall"
NAT = "gcp:compute/routerNat:RouterNat"
OBJECT = "gcp:storage/bucketObject:BucketObject"
POLICY = "gcp:compute/securityPolicy:SecurityPolicy"
POOL = "gcp:container/nodePool:NodePool"
REGION_BACKEND = "gcp:compute/regionBackendService:RegionBackendService"
REGION_CHECK = "gcp:compute/regionHealthCheck:RegionHealthCheck"
REGION_SSL = "gcp:compute/regionSslPolicy:RegionSslPolicy"
ROUTER = "gcp:compute/router:Router"
RULE = "gcp:compute/forwardingRule:ForwardingRule"
SECRET = "gcp:secretmanager/secret:Secret"
SINK = "gcp:logging/projectSink:ProjectSink"
SSL = "gcp:compute/sSLPolicy:SSLPolicy"
SUBNETWORK = "gcp:compute/subnetwork:Subnetwork"
TEMPLATE = "gcp:compute/instanceTemplate:InstanceTemplate"
TRIGGER = "gcp:cloudbuild/trigger:Trigger"
NETWORKS = {"additionalNodeNetworkConfigs": [{"network": "a"}, {"network": "b"}]}
CLUSTER_INPUTS: Inputs = {"location": "us-east5", "initialNodeCount": 1}
NAT_INPUTS: Inputs = {
    "router": "r",
    "region": "us-east5",
    "natIpAllocateOption": "MANUAL_ONLY",
    "sourceSubnetworkIpRangesToNat": "ALL_SUBNETWORKS_ALL_IP_RANGES",
}


def differ(token: str, old: Inputs, new: Inputs, expected: dict[str, bool]) -> Case:
    """Return a case of changed paths, each with whether it replaces the resource."""

    def case(_cloud: Any) -> None:
        known = resource(token)
        assert known is not None
        assert {each.path: each.replaces for each in changes(known, old, new)} == expected

    return case


def refuse(token: str, inputs: Inputs, path: str, old: Inputs | None = None) -> Case:
    """Return a case of inputs that are refused at a path; without it they are not."""

    def case(_cloud: Any) -> None:
        paths = [failure.path for failure in validate_inputs(token, inputs, old or {})]
        assert path in paths

    return case


def plan(token: str, old: Inputs, new: Inputs, expected: Inputs) -> Case:
    """Return a case of outputs that a plan sets."""

    def case(_cloud: Any) -> None:
        known = resource(token)
        assert known is not None
        found = planned(known, new, old, {"project": "acme"})
        assert {key: found.get(key) for key in expected} == expected

    return case


def unknown(token: str, old: Inputs, new: Inputs, expected: list[str]) -> Case:
    """Return a case of outputs that only the update itself computes."""

    def case(_cloud: Any) -> None:
        known = resource(token)
        assert known is not None
        assert unknown_until_applied(known, old, new) == expected
        assert unknown_until_applied(known, old, old) == []

    return case


def keep(token: str, policy: Inputs, message: str) -> Case:
    """Return a case of a resource that cannot be deleted, or whose deletion does nothing."""

    def case(cloud: Any) -> None:
        outputs = {"deletionProtection": False, **policy}
        kept = new_record(token, "kept", "kept", "acme", "urn", {}, outputs)
        cloud.world.store.add(kept, [])
        made = Made(token, "kept", "kept", {}, outputs)
        if message:
            with pytest.raises(Refused, match=message):
                cloud.delete(made)
        else:
            cloud.delete(made)
        assert cloud.world.store.get(token, "kept") is not None

    return case


def mode(more: Inputs, expected: str) -> Case:
    """Return a case of a new cluster's networking mode."""

    def case(_cloud: Any) -> None:
        known = resource(CLUSTER)
        assert known is not None
        inputs = {**CLUSTER_INPUTS, **more}
        outputs = created(known, inputs, "id", "urn", {"project": "acme"})
        assert outputs["networkingMode"] == expected

    return case


def inline(networks: Inputs) -> Inputs:
    return {**CLUSTER_INPUTS, "nodePools": [{"name": "a", "networkConfig": networks}]}


def disk(**second: Any) -> Inputs:
    boot = {"boot": True, "sourceImage": "debian-cloud/debian-12"}
    return {"machineType": "e2-medium", "disks": [boot, second]}


def build(limit: str | None, step: str) -> Inputs:
    given: Inputs = {} if limit is None else {"timeout": limit}
    return {"build": {"steps": [{"name": "a", "timeout": step}], **given}}


def gpu(count: int, kind: str = "nvidia-l4") -> Inputs:
    return {"count": count, "type": kind}


def image(name: str) -> Inputs:
    return {"disks": [{"sourceImage": name}], "project": "p"}


def ranges(*names: str) -> Inputs:
    blocks = [{"rangeName": name, "ipCidrRange": f"10.{ord(name)}.0.0/20"} for name in names]
    return {"secondaryIpRanges": blocks}


NAMED_PORT: Inputs = {"httpHealthCheck": {"portSpecification": "USE_NAMED_PORT", "port": 80}}
POOL_INPUTS: Inputs = {"cluster": "c", "location": "us-east5", "name": "a", "nodeCount": 1}
SURGE: Inputs = {
    **CLUSTER_INPUTS,
    "clusterAutoscaling": {
        "autoProvisioningDefaults": {
            "upgradeSettings": {"strategy": "BLUE_GREEN", "maxSurge": 1},
        }
    },
}
BOTH: Inputs = {"standardRolloutPolicy": {}, "autoscaledRolloutPolicy": {}}
ADMISSION = "autopilotPrivilegedAdmissions"
ALL: Inputs = {ADMISSION: ["gke://*"]}
RECREATE: Inputs = {"recreateClosedPsc": True}
PROFILE: Inputs = {"acceleratorNetworkProfile": "auto"}
PROFILED = "networkConfig.acceleratorNetworkProfile"
CLEARED = "networkConfig.additionalNodeNetworkConfigs"
UNLOGGED: Inputs = {
    "network": "n",
    "sourceTags": ["a"],
    "enableLogging": False,
    "logConfig": {"metadata": "INCLUDE_ALL_METADATA"},
}
WITHOUT_DEFAULT_POOL: Inputs = {
    **CLUSTER_INPUTS,
    "nodeVersion": "1.33",
    "removeDefaultNodePool": True,
}
TWO_RULES: Inputs = {"rules": [{"action": "allow", "priority": 1} for _ in range(2)]}
_ACCELERATORS = "node_config.guest_accelerator"
_NETWORKS = "network_config.additional_node_network_configs"
CASES: list[tuple[str, str, str, Case]] = [
    (
        SECRET,
        "force_new_if",
        "replication.auto",
        differ(
            SECRET,
            {"replication": {"auto": {}}},
            {"replication": {"userManaged": {"replicas": [{"location": "us-east5"}]}}},
            {
                "replication.auto": True,
                "replication.userManaged": True,
                "replication.userManaged.replicas[0]": True,
            },
        ),
    ),
    (DISK, "force_new_if", "size", differ(DISK, {"size": 20}, {"size": 10}, {"size": True})),
    *(
        (
            DISK,
            "force_new_if",
            "provisioned_iops",
            differ(
                DISK,
                {"type": kind, "provisionedIops": 1},
                {"type": kind, "provisionedIops": 2},
                {"provisionedIops": replaces},
            ),
        )
        for kind, replaces in (("pd-extreme", True), ("hyperdisk-extreme", False))
    ),
    *(
        (CLUSTER, "force_new_if", field, differ(CLUSTER, {name: True}, {name: False}, {name: True}))
        for field, name in (
            ("enable_l4_ilb_subsetting", "enableL4IlbSubsetting"),
            ("enable_fqdn_network_policy", "enableFqdnNetworkPolicy"),
        )
    ),
    (
        CLUSTER,
        "force_new_if",
        "enable_k8s_beta_apis.enabled_apis",
        differ(
            CLUSTER,
            {"enableK8sBetaApis": {"enabledApis": ["a", "b"]}},
            {"enableK8sBetaApis": {"enabledApis": ["a"]}},
            {"enableK8sBetaApis.enabledApis[1]": True},
        ),
    ),
    (
        CLUSTER,
        "force_new_if",
        "dns_config.additive_vpc_scope_dns_domain",
        differ(
            CLUSTER,
            {"enableAutopilot": True, "dnsConfig": {"additiveVpcScopeDnsDomain": "a"}},
            {"enableAutopilot": True, "dnsConfig": {"additiveVpcScopeDnsDomain": "b"}},
            {"dnsConfig.additiveVpcScopeDnsDomain": True},
        ),
    ),
    (
        BUCKET,
        "force_new_if",
        "retention_policy.is_locked",
        differ(
            BUCKET,
            {"retentionPolicy": {"retentionPeriod": "1", "isLocked": True}},
            {"retentionPolicy": {"retentionPeriod": "1", "isLocked": False}},
            {"retentionPolicy.isLocked": True},
        ),
    ),
    *(
        (
            SUBNETWORK,
            "force_new_if",
            "ip_cidr_range",
            differ(
                SUBNETWORK,
                {"ipCidrRange": "10.0.0.0/20"},
                {"ipCidrRange": wanted},
                {"ipCidrRange": replaces},
            ),
        )
        for wanted, replaces in (("10.0.0.0/19", False), ("10.0.0.0/21", True))
    ),
    (
        RULE,
        "force_new_if",
        "target",
        differ(RULE, {"target": ATTACHMENT + "a"}, {"target": ATTACHMENT + "b"}, {"target": True}),
    ),
    *(
        (
            RULE,
            "force_new_if",
            "allow_global_access",
            differ(
                RULE,
                {"loadBalancingScheme": scheme, "allowGlobalAccess": False},
                {"loadBalancingScheme": scheme, "allowGlobalAccess": True},
                {"allowGlobalAccess": replaces},
            ),
        )
        for scheme, replaces in (("INTERNAL_MANAGED", True), ("INTERNAL", False))
    ),
    *(
        (
            RULE,
            "force_new_if",
            "psc_connection_status",
            differ(
                RULE,
                {"target": ATTACHMENT + "a", "pscConnectionStatus": status, **RECREATE},
                {"target": ATTACHMENT + "a", **RECREATE},
                expected,
            ),
        )
        for status, expected in (("CLOSED", {"pscConnectionStatus": True}), ("ACCEPTED", {}))
    ),
    (
        CLUSTER,
        "plan_sets",
        "",
        plan(
            CLUSTER,
            {},
            {"enableAutopilot": True},
            {"enableIntranodeVisibility": True, "networkingMode": "VPC_NATIVE"},
        ),
    ),
    *(
        (CLUSTER, "plan_sets", "autopilot_privileged_admission", plan(CLUSTER, old, new, ALL))
        for old, new in (({ADMISSION: ["gke://a"]}, {}), ({}, {ADMISSION: []}))
    ),
    (
        SUBNETWORK,
        "plan_sets",
        "",
        plan(
            SUBNETWORK,
            ranges("a"),
            {"sendSecondaryIpRangeIfEmpty": True},
            {"secondaryIpRanges": []},
        ),
    ),
    (
        SUBNETWORK,
        "plan_sets",
        "",
        plan(SUBNETWORK, ranges("a"), {}, ranges("a")),
    ),
    (
        ACCOUNT,
        "plan_sets",
        "",
        plan(
            ACCOUNT,
            {},
            {"accountId": "gate"},
            {
                "email": "gate@acme.iam.gserviceaccount.com",
                "member": "serviceAccount:gate@acme.iam.gserviceaccount.com",
            },
        ),
    ),
    *(
        (SUBNETWORK, "plan_order", "secondary_ip_range", differ(SUBNETWORK, old, new, expected))
        for old, new, expected in (
            (ranges("a", "b"), ranges("b", "a"), {}),
            (
                ranges("a", "b", "c"),
                ranges("a", "c"),
                {
                    "secondaryIpRanges[1].ipCidrRange": False,
                    "secondaryIpRanges[1].rangeName": False,
                    "secondaryIpRanges[2]": False,
                },
            ),
        )
    ),
    (
        SINK,
        "plan_computed",
        "writer_identity",
        unknown(
            SINK,
            {"uniqueWriterIdentity": False},
            {"uniqueWriterIdentity": True},
            ["writerIdentity"],
        ),
    ),
    (
        OBJECT,
        "plan_computed",
        "md5hash, crc32c, generation",
        unknown(OBJECT, {"content": "a"}, {"content": "b"}, ["crc32c", "generation", "md5hash"]),
    ),
    (
        CLUSTER,
        "plan_clears",
        "node_pool." + _NETWORKS,
        differ(
            CLUSTER,
            inline(NETWORKS),
            inline({}),
            {"nodePools[0].networkConfig.additionalNodeNetworkConfigs": True},
        ),
    ),
    *(
        (
            POOL,
            "plan_clears",
            _NETWORKS,
            differ(POOL, {"networkConfig": old}, new, expected),
        )
        for old, new, expected in (
            (NETWORKS, {}, {CLEARED: True}),
            (NETWORKS, {"networkConfig": {}}, {CLEARED: True}),
            ({**NETWORKS, **PROFILE}, {"networkConfig": {}}, {CLEARED: True, PROFILED: True}),
            (NETWORKS, {"networkConfig": PROFILE}, {CLEARED: True, PROFILED: True}),
            ({**NETWORKS, **PROFILE}, {"networkConfig": PROFILE}, {}),
            ({**NETWORKS, **PROFILE}, {}, {}),
            (NETWORKS, {"networkConfig": NETWORKS}, {}),
        )
    ),
    *(
        (
            token,
            "plan_no_diff",
            _ACCELERATORS,
            differ(
                token,
                {"nodeConfig": {"guestAccelerators": [gpu(1)]}},
                {"nodeConfig": {"guestAccelerators": [gpu(0), gpu(1, kind)]}},
                expected,
            ),
        )
        for token in (CLUSTER, POOL)
        for kind, expected in (
            ("nvidia-l4", {}),
            (
                "nvidia-tesla-t4",
                {
                    "nodeConfig.guestAccelerators[0].count": True,
                    "nodeConfig.guestAccelerators[1]": True,
                },
            ),
        )
    ),
    *(
        (TEMPLATE, "plan_no_diff", "disk.source_image", differ(TEMPLATE, image(old), image(new), e))
        for old, new, e in (
            ("debian-cloud/d", "projects/debian-cloud/global/images/d", {}),
            ("projects/p/global/images/d", "d", {}),
            ("projects/p/global/images/d", "e", {"disks[0].sourceImage": True}),
        )
    ),
    (REGION_CHECK, "plan_error", "", refuse(REGION_CHECK, NAMED_PORT, "httpHealthCheck.port")),
    (CHECK, "plan_error", "", refuse(CHECK, NAMED_PORT, "httpHealthCheck.port")),
    (FIREWALL, "plan_error", "", refuse(FIREWALL, UNLOGGED, "logConfig")),
    (FIREWALL, "plan_error", "", refuse(FIREWALL, {"network": "n"}, "sourceRanges")),
    (
        CHANNEL,
        "plan_error",
        "",
        refuse(
            CHANNEL,
            {
                "type": "slack",
                "labels": {"auth_token": "a"},
                "sensitiveLabels": {"authToken": "b"},
            },
            "sensitiveLabels.authToken",
        ),
    ),
    (
        REGION_BACKEND,
        "plan_error",
        "",
        refuse(
            REGION_BACKEND,
            {"loadBalancingScheme": "INTERNAL", "backends": [{"group": "g", "maxRate": 1}]},
            "backends[0].maxRate",
        ),
    ),
    (
        REGION_BACKEND,
        "plan_error",
        "",
        refuse(
            REGION_BACKEND,
            {
                "loadBalancingScheme": "EXTERNAL_MANAGED",
                "backends": [{"group": "g", "capacityScaler": 0}],
            },
            "backends",
        ),
    ),
    (CLUSTER, "plan_error", "", refuse(CLUSTER, WITHOUT_DEFAULT_POOL, "nodeVersion")),
    (
        CLUSTER,
        "plan_error",
        "",
        refuse(
            CLUSTER,
            {**CLUSTER_INPUTS, "nodeVersion": "1.32.1", "minMasterVersion": "1.33.1"},
            "nodeVersion",
        ),
    ),
    (
        CLUSTER,
        "plan_error",
        "",
        refuse(
            CLUSTER,
            SURGE,
            "clusterAutoscaling.autoProvisioningDefaults.upgradeSettings.maxSurge",
        ),
    ),
    (
        CLUSTER,
        "plan_error",
        "",
        refuse(CLUSTER, {**inline({}), "skipNodePoolRefresh": True}, "skipNodePoolRefresh"),
    ),
    (POLICY, "plan_error", "", refuse(POLICY, TWO_RULES, "rules[1].priority")),
    (
        SINK,
        "plan_error",
        "",
        refuse(
            SINK,
            {
                "destination": "d",
                "uniqueWriterIdentity": False,
                "bigqueryOptions": {"usePartitionedTables": True},
            },
            "bigqueryOptions",
        ),
    ),
    (TEMPLATE, "plan_error", "", refuse(TEMPLATE, disk(boot=True), "disks[1].boot")),
    (TEMPLATE, "plan_error", "", refuse(TEMPLATE, disk(type="SCRATCH"), "disks[1].type")),
    (
        ROUTER,
        "plan_error",
        "",
        refuse(
            ROUTER,
            {"network": "n", "bgp": {"asn": 64514, "advertisedGroups": ["ALL_SUBNETS"]}},
            "bgp.advertisedGroups",
        ),
    ),
    *(
        (NAT, "plan_error", "", refuse(NAT, {**NAT_INPUTS, **new}, "drainNatIps", old))
        for old, new in (
            ({}, {"drainNatIps": ["a"]}),
            ({**NAT_INPUTS, "natIps": ["b"]}, {"natIps": ["b"], "drainNatIps": ["a"]}),
            ({**NAT_INPUTS, "natIps": ["a"]}, {"natIps": ["a"], "drainNatIps": ["a"]}),
        )
    ),
    (
        OBJECT,
        "plan_error",
        "",
        refuse(
            OBJECT,
            {
                "bucket": "b",
                "content": "c",
                "contexts": {"customs": [{"key": "k", "value": "1"}, {"key": "k", "value": "2"}]},
            },
            "contexts.customs[1].key",
        ),
    ),
    *(
        (TRIGGER, "plan_error", "", refuse(TRIGGER, build(limit, step), path))
        for limit, step, path in (
            ("60s", "61s", "build.timeout"),
            (None, "601s", "build.timeout"),
            ("7200S", "1s", "build.timeout"),
            ("", "1s", "build.timeout"),
            ("two hours", "1s", "build.timeout"),
            ("60s", "1S", "build.steps[0].timeout"),
        )
    ),
    *(
        (token, "plan_error", "", refuse(token, inputs, "customFeatures"))
        for token in (SSL, REGION_SSL)
        for inputs in ({"profile": "CUSTOM"}, {"customFeatures": ["a"]})
    ),
    (
        CLUSTER,
        "create_error",
        "",
        refuse(CLUSTER, {**CLUSTER_INPUTS, "nodeLocations": ["us-east5"]}, "nodeLocations"),
    ),
    *(
        (POOL, "create_error", "", refuse(POOL, {**POOL_INPUTS, **more}, path))
        for path, more in (
            ("name", {"namePrefix": "a"}),
            ("initialNodeCount", {"initialNodeCount": 1}),
            (
                "upgradeSettings.maxSurge",
                {"upgradeSettings": {"strategy": "BLUE_GREEN", "maxSurge": 1}},
            ),
            ("upgradeSettings.blueGreenSettings", {"upgradeSettings": {"blueGreenSettings": {}}}),
            (
                "upgradeSettings.blueGreenSettings",
                {"upgradeSettings": {"strategy": "BLUE_GREEN", "blueGreenSettings": BOTH}},
            ),
        )
    ),
    *(
        (CLUSTER, "create_sets", "", mode(more, expected))
        for more, expected in (
            ({}, "VPC_NATIVE"),
            ({"clusterIpv4Cidr": "10.0.0.0/14"}, "ROUTES"),
        )
    ),
    (
        CLUSTER,
        "delete_error",
        "",
        keep(CLUSTER, {"deletionProtection": True}, "deletionProtection is true"),
    ),
    *(
        (token, "delete_error", "", keep(token, {"deletionPolicy": "PREVENT"}, "is PREVENT"))
        for token in (CLUSTER, POOL)
    ),
    *(
        (token, "delete_skip", "", keep(token, {"deletionPolicy": "ABANDON"}, ""))
        for token in (CLUSTER, POOL)
    ),
]


@pytest.mark.parametrize(
    "case", [pytest.param(each[3], id=f"{each[0].split(':')[1]} {each[1]}") for each in CASES]
)
def test_the_twin_obeys_a_rule_that_the_provider_has_in_code(cloud: Any, case: Case) -> None:
    case(cloud)


def test_every_rule_that_the_provider_has_in_code_has_a_case() -> None:
    rules: Counter[tuple[str, str, str]] = Counter()
    for token in tokens():
        known = resource(token)
        assert known is not None
        rules.update((token, rule["kind"], rule.get("field", "")) for rule in known.custom_rules)
    cases = Counter((token, kind, field) for token, kind, field, _ in CASES)
    assert {rule: count for rule, count in rules.items() if cases[rule] < count} == {}
    assert set(cases) <= set(rules)
