"""The front of a stack: what leads clients to the gateways of several regions."""

import json
from typing import Any

import pytest

from infra.estimate.feature_costs import front_parts, network_parts
from infra.estimate.quota_network import network_requirements
from infra.estimate.usage import DEFAULT_USAGE, Usage
from infra.plan import resolve
from infra.reading.load import STACKS, parse, platform_of
from infra.stack import Exposure, Front, Gateway, Platform
from infra.stack.problems import StackError
from planner.amount import HOURS_PER_MONTH
from tests.contract.infra.cloud import Deployed
from tests.shipped_stacks import EXAMPLES

REGIONS = ["us-central1", "europe-west4", "asia-northeast1"]


def document(name: str = "three-regions", **gateway: Any) -> dict[str, Any]:
    found = platform_of(EXAMPLES / name / f"Pulumi.{name}.yaml")
    found["gateway"] |= gateway
    return found


def stack(name: str = "three-regions", **gateway: Any) -> Platform:
    return parse(json.dumps(document(name, **gateway)))


def partly_served() -> dict[str, Any]:
    """A stack with a model that Asia lacks."""
    found = document()
    model = dict(found["models"]["qwen3-0.6b"], regions=REGIONS[:2], weights="other")
    found["models"]["qwen3-1.7b"] = model
    return found


def refused(found: dict[str, Any]) -> str:
    with pytest.raises(StackError) as error:
        parse(json.dumps(found))
    return str(error.value)


def guarded() -> Platform:
    """Return a stack whose front has a limit, the usual port and certificates; tests share it."""
    return stack(
        port=443, requests_per_minute=60, issue_certificate=True, dns={"zone": "example-com"}
    )


@pytest.fixture
def made(deployed: Deployed):
    """Return what a stack registers, by type, as a cluster with a programmed Gateway answers."""
    return lambda platform: deployed(platform).by_type()


@pytest.mark.parametrize(("is_reached", "access"), [(True, [True]), (False, [])])
def test_an_internal_gateway_is_reached_from_other_regions_if_the_stack_says_so(
    made, is_reached, access
):
    document = platform_of(STACKS / "Pulumi.local.yaml")
    document["gateway"] = {"exposure": "internal", "port": 8080, "global_access": is_reached}
    policies = made(parse(json.dumps(document))).get("GCPGatewayPolicy", [])
    assert [each["spec"]["default"].get("allowGlobalAccess") for each in policies] == access


def test_the_access_of_a_gateway_is_settled_before_its_load_balancer_exists(deployed):
    found = deployed(stack())
    gateways = found.all("kubernetes:gateway.networking.k8s.io/v1:Gateway")
    policies = found.all("kubernetes:networking.gke.io/v1:GCPGatewayPolicy")
    for gateway, policy in zip(gateways, policies, strict=True):
        assert any(each.endswith(f"::{policy.name}") for each in gateway.dependencies)
        assert not any(each.endswith(f"::{gateway.name}") for each in policy.dependencies)


def test_internal_gateways_behind_one_dns_record_are_reached_from_other_regions(made):
    document = platform_of(STACKS / "Pulumi.local.yaml")
    document["gateway"] = {"exposure": "internal", "port": 8080}
    assert not parse(json.dumps(document)).gateway.has_global_access
    dns = Gateway.model_construct(exposure=Exposure.INTERNAL, front=Front.DNS, global_access=False)
    assert dns.has_global_access
    assert not dns.model_copy(update={"exposure": Exposure.EXTERNAL}).has_global_access


def test_a_global_front_joins_the_internal_gateway_of_every_region(made):
    found = made(stack())
    assert {each["spec"]["gatewayClassName"] for each in found["Gateway"]} == {"gke-l7-rilb"}
    awaited = found["Gateway"][0]["metadata"]["annotations"]["pulumi.com/waitFor"]
    assert json.loads(awaited) == [
        "condition=Programmed",
        r"jsonpath={.metadata.annotations.networking\.gke\.io/forwarding-rules}",
    ]
    policies = [each["spec"]["default"] for each in found["GCPGatewayPolicy"]]
    assert [each["allowGlobalAccess"] for each in policies] == [True, True, True]
    attachments = sorted(found["ServiceAttachment"], key=lambda each: REGIONS.index(each["region"]))
    assert [each["targetService"].rpartition("/projects/")[2] for each in attachments] == [
        f"acme-inference-local/regions/{region}/forwardingRules/gkegw1-a-models"
        for region in REGIONS
    ]
    assert {each["connectionPreference"] for each in attachments} == {"ACCEPT_MANUAL"}
    assert attachments[0]["consumerAcceptLists"] == [
        {"connectionLimit": 10, "projectIdOrNum": "acme-inference-local"},
        {"connectionLimit": 4, "projectIdOrNum": "acme-shop"},
    ]
    groups = found["RegionNetworkEndpointGroup"]
    assert sorted(each["region"] for each in groups) == sorted(REGIONS)
    assert {each["pscData"]["producerPort"] for each in groups} == {"8443"}
    (backend,) = found["BackendService"]
    assert len(backend["backends"]) == 3
    assert all(list(each) == ["group"] for each in backend["backends"])  # the NEG takes no more
    assert (backend["protocol"], backend["loadBalancingScheme"]) == ("HTTPS", "EXTERNAL_MANAGED")


@pytest.mark.parametrize(("name", "hops"), [("three-regions", 4), ("nearest-region", 2)])
def test_every_gate_counts_clients_by_their_own_address_behind_each_front(made, name, hops):
    found = document(name)
    found["clients"] = {"teams": {"search": {"requests_per_minute": 60}}}
    built = made(parse(json.dumps(found)))
    pods = [each["spec"]["template"]["spec"] for each in built["Deployment"]]
    args = [
        pod["containers"][0]["args"] for pod in pods if pod["containers"][0]["name"] == "callout"
    ]
    assert len(args) == len(REGIONS)
    assert all(f"--forwarded-hops={hops}" in each for each in args)


def test_what_guards_a_gateway_guards_the_global_front_in_its_place(made):
    found = made(guarded())
    assert "RegionSecurityPolicy" not in found
    (guard,) = found["SecurityPolicy"]
    size, throttle, _ = guard["rules"]
    assert size["action"] == "deny(403)"
    assert throttle["rateLimitOptions"]["rateLimitThreshold"]["count"] == 60
    (tls,) = found["SSLPolicy"]
    assert tls["minTlsVersion"] == "TLS_1_2"
    (backend,) = found["BackendService"]
    assert backend["securityPolicy"] == "front-guard-id"


def test_plain_http_is_redirected_where_the_port_is_the_usual_one(made):
    found = made(guarded())
    rules = {each["portRange"]: each["target"] for each in found["GlobalForwardingRule"]}
    assert rules == {"443": "front-id", "80": "front-redirect-id"}
    assert {each["ipAddress"] for each in found["GlobalForwardingRule"]} == {"203.0.113.99"}
    (redirect,) = [
        each["defaultUrlRedirect"] for each in found["URLMap"] if "defaultUrlRedirect" in each
    ]
    assert redirect["redirectResponseCode"] == "PERMANENT_REDIRECT"


def test_another_port_has_no_redirect(made):
    found = made(stack())
    assert [each["portRange"] for each in found["GlobalForwardingRule"]] == ["8443"]


def test_an_issued_certificate_is_made_in_every_region_and_for_the_front(made):
    found = made(guarded())
    locations = [each["location"] for each in found["Certificate"]]
    assert sorted(locations) == sorted([*REGIONS, "global"])
    (entry,) = found["CertificateMapEntry"]
    assert entry["certificates"] == [
        "projects/acme-inference-local/locations/global/certificates/models-example-com"
    ]
    (address,) = [each for each in found["RecordSet"] if each["type"] == "A"]
    assert address["rrdatas"] == ["203.0.113.99"]


def test_each_region_gets_a_subnet_for_published_connections(made):
    subnets = [
        each
        for each in made(stack())["Subnetwork"]
        if each.get("purpose") == "PRIVATE_SERVICE_CONNECT"
    ]
    assert sorted(each["ipCidrRange"] for each in subnets) == [
        "10.3.0.0/24",
        "10.3.1.0/24",
        "10.3.2.0/24",
    ]


def test_a_drained_region_stays_published_but_gets_no_requests(made):
    found = made(stack(drain=["europe-west4"]))
    (backend,) = found["BackendService"]
    assert [each["group"] for each in backend["backends"]] == [
        "front-us-central1-psc-id",
        "front-asia-northeast1-psc-id",
    ]
    assert len(found["ServiceAttachment"]) == 3


def test_a_model_that_a_region_lacks_has_a_path_to_the_regions_that_serve_it(made):
    platform = parse(json.dumps(partly_served()))
    front = resolve(platform).front
    assert front.answering == ("us-central1", "europe-west4")
    assert front.paths == {"qwen3-1.7b": ("us-central1", "europe-west4")}
    found = made(platform)
    services = {each["name"]: each for each in found["BackendService"]}
    assert sorted(services) == ["acme-local-front", "acme-local-front-qwen3-1-7b"]
    assert [len(each["backends"]) for each in services.values()] == [2, 2]
    (rule,) = found["URLMap"][0]["pathMatchers"][0]["routeRules"]
    assert rule["matchRules"] == [{"prefixMatch": "/models/qwen3-1.7b/"}]
    assert rule["routeAction"]["urlRewrite"] == {"pathPrefixRewrite": "/"}
    assert rule["service"] == "front-qwen3-1-7b-id"


def test_a_region_half_of_whose_requests_fail_by_chance_is_hardly_ever_left_out(made):
    for service in made(stack())["BackendService"]:
        detection = service["outlierDetection"]
        for failures in (detection["consecutiveErrors"], detection["consecutiveGatewayFailure"]):
            # requests until so many fail one after another, on average
            assert 2 ** (failures + 1) - 2 > 1_000_000


def test_only_what_reached_no_engine_is_tried_in_another_region(made):
    matcher = made(stack())["URLMap"][0]["pathMatchers"][0]
    assert matcher["defaultRouteAction"]["retryPolicy"]["retryConditions"] == [
        "connect-failure",
        "refused-stream",
    ]


def test_a_front_of_dns_checks_external_gateways_by_probes_of_three_regions(made):
    found = made(stack("nearest-region"))
    (check,) = found["HealthCheck"]
    assert len(check["sourceRegions"]) == 3
    assert check["httpsHealthCheck"]["requestPath"] == "/healthz", "it needs no credential"
    assert check["checkIntervalSec"] >= 30
    (record,) = found["RecordSet"]
    policy = record["routingPolicy"]
    assert policy["enableGeoFencing"] is False
    assert [each["location"] for each in policy["geos"]] == REGIONS
    assert policy["geos"][0]["healthCheckedTargets"] == {"externalEndpoints": ["203.0.113.10"]}
    assert (record["ttl"], record["project"]) == (30, "acme-dns")


def test_a_front_of_dns_has_google_check_internal_load_balancers_itself(made):
    found = made(stack("nearest-region", exposure="internal"))
    assert "HealthCheck" not in found
    (record,) = found["RecordSet"]
    (target,) = record["routingPolicy"]["geos"][0]["healthCheckedTargets"]["internalLoadBalancers"]
    assert target["loadBalancerType"] == "regionalL7ilb"
    assert (target["port"], target["region"]) == ("443", "us-central1")


def test_a_front_of_dns_leads_to_the_regions_with_every_model_only(made):
    found = document("nearest-region")
    model = dict(found["models"]["qwen3-0.6b"], regions=REGIONS[:2], weights="other")
    found["models"]["qwen3-1.7b"] = model
    (record,) = made(parse(json.dumps(found)))["RecordSet"]
    assert [each["location"] for each in record["routingPolicy"]["geos"]] == REGIONS[:2]


def test_the_certificate_of_internal_gateways_is_authorized_in_a_public_zone(made):
    dns = {"zone": "inner", "certificate_zone": "outer"}
    found = made(stack("nearest-region", exposure="internal", issue_certificate=True, dns=dns))
    zones = {each["type"]: each["managedZone"] for each in found["RecordSet"]}
    assert zones == {"A": "inner", "CNAME": "outer"}


def test_a_front_of_dns_leaves_drained_regions_out(made):
    found = made(stack("nearest-region", drain=["us-central1"]))
    geos = found["RecordSet"][0]["routingPolicy"]["geos"]
    assert [each["location"] for each in geos] == ["europe-west4", "asia-northeast1"]


def test_internal_gateways_are_published_to_the_projects_that_the_stack_names(made):
    found = document(exposure="internal", publish={"consumers": {"acme-shop": 4}})
    del found["gateway"]["front"]
    attachments = made(parse(json.dumps(found)))["ServiceAttachment"]
    assert [each["consumerAcceptLists"] for each in attachments] == [
        [{"connectionLimit": 4, "projectIdOrNum": "acme-shop"}]
    ] * 3


def test_a_global_front_connects_from_a_network_that_has_no_gateway(made):
    found = made(stack())
    subnets = {
        (each["network"], each["name"].partition("acme-")[2]): each for each in found["Subnetwork"]
    }
    groups = found["RegionNetworkEndpointGroup"]
    for group in groups:
        region = group["region"]
        assert (group["network"], group["subnetwork"]) == (
            "front-network-id",
            f"front-network-{region}-id",
        )
        assert ("front-network-id", f"local-front-{region}") in subnets
        assert ("network-id", f"local-net-{region}-published") in subnets
    assert len(groups) == len(REGIONS)


def test_a_global_front_may_have_one_region(made):
    found = document()
    found["regions"] = {"us-central1": found["regions"]["us-central1"]}
    assert len(made(parse(json.dumps(found)))["RegionNetworkEndpointGroup"]) == 1


def test_a_region_without_a_model_is_no_part_of_the_front():
    found = document()
    found["models"]["qwen3-0.6b"]["regions"] = REGIONS[:2]
    assert resolve(parse(json.dumps(found))).front.routed == ("us-central1", "europe-west4")


def test_a_stack_without_a_front_keeps_the_plain_record(made):
    found = document("nearest-region")
    del found["gateway"]["front"]
    (record,) = made(parse(json.dumps(found)))["RecordSet"]
    geos = record["routingPolicy"]["geos"]
    assert [sorted(each) for each in geos] == [["location", "rrdatas"]] * 3


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            {"exposure": "internal"},
            "gateway.front must be 'dns', 'internal' or unset when exposure is internal: the"
            " address is public, got 'global'",
        ),
        (
            {"hostname": None},
            "needs 'hostname', got 'models-example-com' without one (also gateway.front)",
        ),
        (
            {"front": "dns"},
            "gateway.front needs 'dns', the zone of its record, got 'dns' without one",
        ),
        (
            {"front": None, "publish": None},
            "regions.us-central1.ranges.published must not be set unless gateway.front is global"
            " or gateway.publish is set, got '10.3.0.0/24'",
        ),
        (
            {"front": None, "drain": ["us-central1"]},
            "gateway.drain needs 'front', got us-central1",
        ),
        ({"drain": ["us-west1"]}, "gateway.drain[0] must be one of us-central1, europe-west4"),
        ({"drain": REGIONS}, "gateway.drain must leave a region with a gateway"),
        ({"drain": ["us-central1"] * 2}, "must not repeat a region, got 'us-central1' twice"),
        (
            {"front": "dns", "publish": {"consumers": {"acme-shop": 1}}},
            "gateway.publish must not be set when the gateways are external",
        ),
        ({"front": "both"}, "gateway.front must be one of dns, global, internal, got 'both'"),
    ],
)
def test_what_google_does_not_offer_is_refused(change: dict[str, Any], expected: str):
    assert expected in refused(document(**change))


def test_a_published_region_needs_a_range_for_its_connections():
    found = document()
    del found["regions"]["europe-west4"]["ranges"]["published"]
    assert "regions.europe-west4.ranges.published is required" in refused(found)


def test_ranges_of_published_connections_may_not_overlap_others():
    found = document()
    found["regions"]["europe-west4"]["ranges"]["published"] = "10.3.0.0/25"
    assert "must not overlap" in refused(found)


def test_a_front_without_a_region_for_every_model_is_refused():
    found = partly_served()
    found["models"]["qwen3-0.6b"]["regions"] = REGIONS[2:]
    assert (
        "gateway.front needs an undrained region that serves every model: the front cannot"
        " read the model of a request, got 'global' (us-central1 lacks qwen3-0.6b;"
        " europe-west4 lacks qwen3-0.6b; asia-northeast1 lacks qwen3-1.7b)"
    ) in refused(found)


def test_a_global_front_costs_its_rules_and_the_traffic_of_each_region():
    parts = list(front_parts(resolve(stack()).front, Usage(traffic_gib=1000)))
    monthly = {(each.what, each.region): each.expected.value * HOURS_PER_MONTH for each in parts}
    assert monthly["global load balancer, forwarding rules", ""] == pytest.approx(18.25)
    assert monthly["global load balancer, data both ways", "us-central1"] == pytest.approx(16)
    out = "traffic of the front to the internet"
    assert monthly[out, "us-central1"] == monthly[out, "europe-west4"] == pytest.approx(120)
    assert {(each.what, each.region) for each in parts if each.source is None} == {
        ("Cloud Armor policy of the front", ""),
        ("global load balancer, data both ways", "asia-northeast1"),
        ("global load balancer, data both ways", "europe-west4"),
        (out, "asia-northeast1"),
    }
    assert list(front_parts(resolve(stack("nearest-region")).front, DEFAULT_USAGE)) == []
    front = resolve(stack()).front
    inner = [
        each.what for each in network_parts(front, "us-central1", [], DEFAULT_USAGE, has_nat=True)
    ]
    assert "Private Service Connect, data" in inner
    assert not [what for what in inner if what.startswith("external load balancer")]


def test_a_global_front_asks_for_maps_proxies_and_a_group_in_each_region():
    asks = [each for each in network_requirements(resolve(stack(port=443))) if "front" in each.who]
    assert [(each.metric.name, each.region, each.amount) for each in asks] == [
        ("NETWORKS", None, 1),
        ("SUBNETWORKS", None, 3),
        ("URL_MAPS", None, 2),
        ("TARGET_HTTPS_PROXIES", None, 1),
        ("TARGET_HTTP_PROXIES", None, 1),
        *(("NETWORK_ENDPOINT_GROUPS", region, 1) for region in REGIONS),
    ]


@pytest.fixture(scope="module")
def routed() -> Platform:
    """Return the stack with body-based routing; its tests share it."""
    return stack("front-router")


def router_settings(found: dict[str, list[dict[str, Any]]], region: str) -> dict[str, Any]:
    """Return the configuration of the router of a region."""
    (service,) = [each for each in found["Service"] if each.get("location") == region]
    (container,) = service["template"]["containers"]
    (variable,) = container["envs"]
    assert f"--config-variable={variable['name']}" in container["args"]
    return json.loads(variable["value"])["front"]


def test_a_router_sends_each_model_to_its_regions_and_to_its_fallback(made, routed):
    found = made(routed)
    told = router_settings(found, "us-central1")
    assert told["server_name"] == "models.example.com"
    assert told["near"] == ["us-central1", "europe-west4"]
    assert router_settings(found, "europe-west4")["near"] == ["europe-west4", "us-central1"]
    assert told["models"] == {
        "qwen3-1.7b": {"fallback": "gemini-flash", "regions": ["europe-west4"]}
    }
    assert sorted(told["regions"]) == ["europe-west4", "us-central1"]
    assert all(each.endswith(":8443") for each in told["regions"].values())


def test_the_plain_url_of_a_front_with_a_router_leads_to_its_services(made, routed):
    found = made(routed)
    by_name = {each["name"]: each for each in found["BackendService"]}
    plain = by_name["acme-front-router-front-router"]
    assert "timeoutSec" not in plain, "Google refuses one with serverless groups"
    groups = [each for each in found["RegionNetworkEndpointGroup"] if "cloudRun" in each]
    assert {each["networkEndpointType"] for each in groups} == {"SERVERLESS"}
    assert len(plain["backends"]) == len(groups) == 2
    (url_map,) = found["URLMap"]
    assert url_map["defaultService"] == "front-router-id"
    assert sorted(by_name) == ["acme-front-router-front-qwen3-1-7b", plain["name"]]


def test_a_router_reaches_gateways_by_endpoints_and_only_load_balancers_reach_it(made, routed):
    found = made(routed)
    services = [each for each in found["Service"] if "ingress" in each]
    assert {each["ingress"] for each in services} == {"INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER"}
    assert {each["invokerIamDisabled"] for each in services} == {True}
    rules = [each for each in found["ForwardingRule"] if each.get("allowPscGlobalAccess")]
    assert sorted(each["region"] for each in rules) == ["europe-west4", "us-central1"]
    assert {each["loadBalancingScheme"] for each in rules} == {""}
    ranges = {
        each["name"]: each["ipCidrRange"] for each in found["Subnetwork"] if "run" in each["name"]
    }
    assert [each.rpartition("/")[2] for each in ranges.values()] == ["26", "26"]


def test_a_drained_region_gets_no_requests_from_the_router(made):
    found = made(stack("front-router", drain=["europe-west4"]))
    told = router_settings(found, "us-central1")
    assert told["near"] == ["us-central1"]
    assert told["models"] == {}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"front": "dns", "dns": {"zone": "example-com"}},
            "gateway.front_router must not be set unless gateway.front is global",
        ),
        (
            {"front_router": {"min_instances": 3, "max_instances": 2}},
            "gateway.front_router.min_instances must be at most max_instances (2), got 3",
        ),
        (
            {"front_router": {"fallbacks": {"qwen3-1.7b": "gpt"}}},
            "gateway.front_router.fallbacks.qwen3-1.7b must be one of gemini-flash, got 'gpt'",
        ),
        (
            {"front_router": {"fallbacks": {"gpt": "gemini-flash"}}},
            "gateway.front_router.fallbacks.gpt must be one of qwen3-0.6b, qwen3-1.7b, got 'gpt'",
        ),
        (
            {"front_router": {"guardrail": "armor"}},
            "gateway.front_router.guardrail must be one of front, got 'armor'",
        ),
    ],
)
def test_a_router_that_cannot_work_is_refused(changes, problem):
    assert problem in refused(document("front-router", **changes))


def test_a_router_is_charged_by_its_instances(routed):
    parts = {each.what: each for each in front_parts(resolve(routed).front, DEFAULT_USAGE)}
    router = parts["front router on Cloud Run: 1 vCPU, 1 GiB"]
    assert router.quantity == "1/1/10 instances"


def test_a_guardrail_of_the_router_asks_the_template_of_its_region(made, routed):
    found = made(routed)
    told = router_settings(found, "europe-west4")["guard"]
    template = "projects/acme-inference-front/locations/europe-west4/templates/"
    assert told == {
        "fail_open": False,
        "template": f"{template}acme-front-router-front",
        "timeout_ms": 1000,
    }
    assert sorted(each["location"] for each in found["Template"]) == ["europe-west4", "us-central1"]
    granted = {(each["member"], each["role"]) for each in found["IAMMember"]}
    account = "serviceAccount:acme-front-router-front@acme-inference-front.iam.gserviceaccount.com"
    assert (account, "roles/modelarmor.user") in granted
