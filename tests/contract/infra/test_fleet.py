"""The gateway over all clusters: what it registers, what it refuses, and what it asks of quotas."""

import json
from typing import Any

import pytest

from infra.estimate.feature_costs import front_parts
from infra.estimate.quota_network import network_requirements
from infra.estimate.usage import DEFAULT_USAGE
from infra.plan import resolve
from infra.plan.services import FLEET_SERVICES
from infra.reading.load import parse, platform_of
from infra.stack import Platform
from infra.stack.problems import StackError
from tests.contract.infra.cloud import Deployed
from tests.shipped_stacks import EXAMPLES

CLASS = "gke-l7-cross-regional-internal-managed-mc"
IMPORT = {"group": "networking.gke.io", "kind": "GCPInferencePoolImport", "name": "qwen3-0-6b"}


def document(**gateway: Any) -> dict[str, Any]:
    found = platform_of(EXAMPLES / "internal-front" / "Pulumi.internal-front.yaml")
    found["gateway"] |= gateway
    return found


def stack(**gateway: Any) -> Platform:
    return parse(json.dumps(document(**gateway)))


def exported(pool: dict[str, Any]) -> str | None:
    """Return the value of the annotation that exports a pool."""
    return pool["metadata"].get("annotations", {}).get("networking.gke.io/export")


@pytest.fixture
def made(deployed: Deployed):
    return lambda platform: deployed(platform).by_type()


def test_clusters_join_the_fleet_whose_gateways_one_of_them_configures(made):
    found = made(stack())
    links = {each["endpoint"]["gkeCluster"]["resourceLink"] for each in found["Membership"]}
    assert links == {
        "//container.googleapis.com/us-central1-id",
        "//container.googleapis.com/europe-west4-id",
    }
    discovery, ingress = found["Feature"]
    assert discovery["name"] == "multiclusterservicediscovery"
    assert ingress["name"] == "multiclusteringress"
    assert ingress["spec"]["multiclusteringress"]["configMembership"] == (
        "fleet-us-central1-membership-id"
    )
    granted = {each["role"]: each["member"] for each in found["IAMMember"]}
    agent = "gcp-sa-multiclusteringress.iam.gserviceaccount.com"
    assert granted["roles/container.admin"] == f"serviceAccount:service-314159265358@{agent}"
    assert {each["service"] for each in found["Service"] if "service" in each} >= {*FLEET_SERVICES}


def test_every_region_exports_its_pools_and_their_kv_cache_use(made):
    found = made(stack())
    assert [exported(each) for each in found["InferencePool"]] == ["True", "True"]
    metric = found["AutoscalingMetric"][0]["spec"]
    (endpoint,) = metric["endpoints"]
    assert endpoint["metrics"] == [{"exportName": "kv-cache", "name": "vllm:kv_cache_usage_perc"}]
    pool = found["InferencePool"][0]["spec"]
    assert metric["selector"] == {"matchLabels": pool["selector"]["matchLabels"]}
    assert endpoint["port"] == pool["targetPorts"][0]["number"]


def test_one_gateway_routes_the_paths_of_models_to_imported_pools(made):
    found = made(stack())
    (gateway,) = found["Gateway"]
    assert gateway["spec"]["gatewayClassName"] == CLASS
    kind = "networking.gke.io/ephemeral-ipv4-address/"
    assert gateway["spec"]["addresses"] == [
        {"type": f"{kind}{region}", "value": region} for region in ("us-central1", "europe-west4")
    ]
    (route,) = found["HTTPRoute"]
    own, plain = route["spec"]["rules"]
    assert own["matches"] == [{"path": {"type": "PathPrefix", "value": "/models/qwen3-0.6b/v1"}}]
    rewrite = own["filters"][0]["urlRewrite"]["path"]
    assert rewrite == {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/v1"}
    assert plain["matches"] == [{"path": {"type": "PathPrefix", "value": "/v1"}}]
    assert own["backendRefs"] == plain["backendRefs"] == [{**IMPORT, "weight": 1}]
    assert "GCPRoutingExtension" not in found


def test_imported_pools_are_balanced_by_their_kv_cache_use(made):
    found = made(stack())
    (policy,) = found["GCPBackendPolicy"]
    assert policy["spec"]["targetRef"] == IMPORT
    default = policy["spec"]["default"]
    assert default["balancingMode"] == "CUSTOM_METRICS"
    assert default["customMetrics"] == [
        {"dryRun": False, "maxUtilizationPercent": 60, "name": "gke.named_metrics.kv-cache"}
    ]
    (check,) = found["HealthCheckPolicy"]
    assert check["spec"]["targetRef"] == IMPORT


def test_a_region_has_the_proxies_of_gateways_over_several_regions(made):
    found = made(stack())
    purposes = [each["purpose"] for each in found["Subnetwork"] if "purpose" in each]
    assert purposes == ["GLOBAL_MANAGED_PROXY"] * 2
    engines = next(
        each["spec"]
        for each in found["NetworkPolicy"]
        if "10.2.2.0/23" in json.dumps(each) and "8000" in json.dumps(each)
    )
    assert "10.2.0.0/23" in json.dumps(engines)


def test_a_drained_region_exports_no_pool(made):
    found = made(stack(drain=["europe-west4"]))
    assert {exported(each) for each in found["InferencePool"]} == {None, "True"}
    assert len(found["Gateway"][0]["spec"]["addresses"]) == 2


NAMED = {
    "certificate": "models-example-com",
    "dns": {"zone": "inner", "certificate_zone": "outer", "project": "acme-dns", "ttl_seconds": 60},
    "hostname": "models.example.com",
    "issue_certificate": True,
    "port": None,
}
"""A hostname whose certificate and records the stack makes."""


def test_one_certificate_for_all_regions_is_authorized_in_the_public_zone(made):
    found = made(stack(**NAMED))
    (certificate,) = found["Certificate"]
    assert (certificate["location"], certificate["scope"]) == ("global", "ALL_REGIONS")
    (proof,) = [each for each in found["RecordSet"] if each["type"] == "CNAME"]
    assert (proof["managedZone"], proof["project"]) == ("outer", "acme-dns")
    dns = {**NAMED["dns"], "certificate_project": "acme-web"}
    owners = {
        each["type"]: each["project"] for each in made(stack(**{**NAMED, "dns": dns}))["RecordSet"]
    }
    assert owners == {"A": "acme-dns", "CNAME": "acme-web"}
    (listener,) = found["Gateway"][0]["spec"]["listeners"]
    assert (listener["protocol"], listener["port"]) == ("HTTPS", 443)
    assert listener["hostname"] == "models.example.com"
    options = {"networking.gke.io/cert-manager-certs": "models-example-com"}
    assert listener["tls"]["options"] == options
    (tls,) = found["SSLPolicy"]
    assert tls["minTlsVersion"] == "TLS_1_2"
    (policy,) = found["GCPGatewayPolicy"]
    assert policy["spec"]["default"] == {"sslPolicy": tls["name"]}
    assert "GCPGatewayPolicy" not in made(stack())


def test_the_hostname_leads_to_the_address_of_the_nearest_region_that_is_not_drained(made):
    def targets(**gateway: Any) -> dict[str, Any]:
        records = made(stack(**NAMED, **gateway))["RecordSet"]
        (record,) = [each for each in records if each["type"] == "A"]
        assert (record["managedZone"], record["ttl"]) == ("inner", 60)
        assert record["routingPolicy"]["enableGeoFencing"] is False
        return {
            each["location"]: each["healthCheckedTargets"]["internalLoadBalancers"]
            for each in record["routingPolicy"]["geos"]
        }

    found = targets()
    assert list(found) == ["us-central1", "europe-west4"]
    (target,) = found["europe-west4"]
    assert target["ipAddress"] == "10.0.1.9"
    assert (target["loadBalancerType"], target["port"]) == ("globalL7ilb", "443")
    assert "region" not in target
    assert list(targets(drain=["us-central1"])) == ["europe-west4"]


def test_models_share_the_gateway_under_their_own_paths_only(made):
    document_ = document()
    document_["models"]["qwen3-1.7b"] = {
        **document_["models"]["qwen3-0.6b"],
        "regions": ["europe-west4"],
        "weights": "other",
    }
    found = made(parse(json.dumps(document_)))
    paths = [
        match["path"]["value"]
        for route in found["HTTPRoute"]
        for rule in route["spec"]["rules"]
        for match in rule["matches"]
    ]
    assert sorted(paths) == ["/models/qwen3-0.6b/v1", "/models/qwen3-1.7b/v1"]
    assert len(found["InferencePool"]) == 3


def test_quotas_and_costs_are_those_of_one_gateway():
    asks = [each for each in network_requirements(resolve(stack())) if each.amount]
    names = [each.metric.name for each in asks]
    assert not any(name.startswith("REGIONAL_INTERNAL_MANAGED") for name in names)
    assert names.count("URL_MAPS") == names.count("TARGET_HTTP_PROXIES") == 1
    parts = [each.what for each in front_parts(resolve(stack()).front, DEFAULT_USAGE)]
    assert parts == ["multi-cluster gateway"]


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            {"gateway": {"exposure": "external", "hostname": None}},
            "gateway.exposure must be internal",
        ),
        (
            {"gateway": {"dns": {"zone": "z"}}},
            "gateway.dns needs 'hostname', got 'z' without one",
        ),
        (
            {"gateway": {"publish": {"consumers": {"acme-shop": 1}}}},
            "gateway.publish must not be set when gateway.front is internal: a service attachment"
            " needs the forwarding rule of its region",
        ),
        ({"gateway": {"fleet": {"config_region": "asia-east1"}}}, "gateway.fleet.config_region"),
        ({"gateway": {"front": None}}, "gateway.fleet must not be set unless gateway.front is"),
        ({"clients": {"anonymous": "only this network"}}, "clients must not be set"),
        ({"model": {"task": "embed"}}, "task must be generate when gateway.front is internal"),
        ({"model": {"engine": "triton"}}, "engine must be an engine with a metric"),
    ],
)
def test_what_the_class_does_not_support_is_refused(edit, message):
    found = document()
    found["gateway"] |= edit.get("gateway", {})
    found["models"]["qwen3-0.6b"] |= edit.get("model", {})
    if "clients" in edit:
        found["clients"] = edit["clients"]
    with pytest.raises(StackError) as error:
        parse(json.dumps(found))
    assert message in str(error.value)
