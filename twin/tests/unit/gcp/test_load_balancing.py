"""Load balancers across regions: Google's errors for them and their connections."""

from pathlib import Path
from typing import Any

import pytest

from twin.providers.gcp.resources.references import FORWARDING_RULE
from twin.tests.client_certificates import Authority
from twin.tests.unit.gcp.conftest import PROJECT, Cloud, Made, Refused
from twin.world.store import new_record

REGION = "us-central1"


class Place:
    """A cloud with a network, and the resources of a test."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.create("compute/network:Network", "net", autoCreateSubnetworks=False)
        self.create("compute/network:Network", "consumer", autoCreateSubnetworks=False)

    def create(self, kind: str, urn: str, **inputs: Any) -> Made:
        return self.cloud.create(f"gcp:{kind}", urn, {"name": urn, **inputs})

    def subnet(self, name: str, cidr: str, purpose: str, region: str = REGION, **more: Any) -> Made:
        return self.create(
            "compute/subnetwork:Subnetwork",
            name,
            ipCidrRange=cidr,
            network="net",
            purpose=purpose,
            region=region,
            **more,
        )

    def rule(self, *, scheme: str = "INTERNAL_MANAGED", is_global: bool = True) -> str:
        """Add the forwarding rule of a Gateway, as GKE makes it; return its self link."""
        path = f"projects/{PROJECT}/regions/{REGION}/forwardingRules/gkegw1"
        outputs = {"allowGlobalAccess": is_global, "loadBalancingScheme": scheme, "name": "gkegw1"}
        store = self.cloud.world.store
        store.add(new_record(FORWARDING_RULE, path, "gkegw1", PROJECT, "", {}, outputs), [])
        store.set(FORWARDING_RULE, path, status="ready")
        return f"https://www.googleapis.com/compute/v1/{path}"

    def attachment(self, target: str, urn: str = "published", region: str = REGION) -> Made:
        return self.create(
            "compute/serviceAttachment:ServiceAttachment",
            urn,
            connectionPreference="ACCEPT_MANUAL",
            enableProxyProtocol=False,
            natSubnets=["published"],
            region=region,
            targetService=target,
        )

    def published(self, **rule: Any) -> Made:
        self.subnet("published", "10.3.0.0/24", "PRIVATE_SERVICE_CONNECT")
        return self.attachment(self.rule(**rule))

    def group(self, target: str, urn: str = "group", region: str = REGION, **place: Any) -> Made:
        return self.create(
            "compute/regionNetworkEndpointGroup:RegionNetworkEndpointGroup",
            urn,
            networkEndpointType="PRIVATE_SERVICE_CONNECT",
            pscTargetService=target,
            region=region,
            **(place or {"network": "consumer"}),
        )

    def service(self, *groups: str, **more: Any) -> Made:
        inputs: dict[str, Any] = {
            "backends": [{"group": group} for group in groups],
            "loadBalancingScheme": "EXTERNAL_MANAGED",
            "protocol": "HTTPS",
        }
        return self.create("compute/backendService:BackendService", "front", **(inputs | more))

    def check(self, **more: Any) -> Made:
        inputs: dict[str, Any] = {
            "checkIntervalSec": 30,
            "httpsHealthCheck": {"port": 443},
            "sourceRegions": ["asia-east1", "europe-west1", "us-central1"],
        }
        given = {key: value for key, value in (inputs | more).items() if value is not None}
        return self.create("compute/healthCheck:HealthCheck", "probes", **given)


@pytest.fixture
def place(cloud: Cloud) -> Place:
    return Place(cloud)


def test_a_region_of_a_network_has_one_active_subnet_for_proxies(place: Place) -> None:
    place.subnet("proxies", "10.2.0.0/23", "REGIONAL_MANAGED_PROXY", role="ACTIVE")
    place.subnet("spare", "10.2.2.0/23", "REGIONAL_MANAGED_PROXY", role="BACKUP")
    place.subnet("west", "10.2.4.0/23", "REGIONAL_MANAGED_PROXY", "us-west1", role="ACTIVE")
    with pytest.raises(Refused, match="already an active subnetwork"):
        place.subnet("second", "10.2.6.0/23", "REGIONAL_MANAGED_PROXY", role="ACTIVE")


def test_an_internal_gateway_is_published_by_the_link_of_its_rule(place: Place) -> None:
    made = place.published()
    assert made.id == f"projects/{PROJECT}/regions/{REGION}/serviceAttachments/published"


def test_an_external_gateway_cannot_be_published(place: Place) -> None:
    with pytest.raises(Refused, match="internal load balancer, 'gkegw1' is EXTERNAL_MANAGED"):
        place.published(scheme="EXTERNAL_MANAGED")


def test_a_rule_that_does_not_exist_cannot_be_published(place: Place) -> None:
    place.subnet("published", "10.3.0.0/24", "PRIVATE_SERVICE_CONNECT")
    with pytest.raises(Refused, match="was not found"):
        place.attachment(f"projects/{PROJECT}/regions/{REGION}/forwardingRules/gone")


def test_connections_come_from_a_subnet_that_is_for_them_alone(place: Place) -> None:
    place.subnet("published", "10.3.0.0/24", "PRIVATE")
    rule = place.rule()
    with pytest.raises(Refused, match="must have purpose PRIVATE_SERVICE_CONNECT"):
        place.attachment(rule)


def test_a_subnet_serves_one_attachment(place: Place) -> None:
    place.published()
    with pytest.raises(Refused, match="is already used by"):
        place.attachment(place.rule(), "second")


def test_an_attachment_is_in_the_region_of_its_rule(place: Place) -> None:
    place.subnet("published", "10.3.0.0/24", "PRIVATE_SERVICE_CONNECT", "us-west1")
    with pytest.raises(Refused, match="is not in region us-west1"):
        place.attachment(place.rule(), region="us-west1")


def test_a_group_is_in_the_region_of_its_attachment(place: Place) -> None:
    attachment = place.published()
    with pytest.raises(Refused, match="is not in region us-west1"):
        place.group(attachment.id, region="us-west1")
    with pytest.raises(Refused, match="was not found"):
        place.group(attachment.id.replace("/published", "/gone"))


@pytest.mark.parametrize("field", ["network", "subnetwork"])
def test_a_group_is_in_another_network_than_its_attachment(place: Place, field: str) -> None:
    attachment = place.published()
    place.subnet("nodes", "10.4.0.0/24", "PRIVATE")
    given = {"network": "net"} if field == "network" else {"subnetwork": "nodes"}
    with pytest.raises(Refused, match="must be in another VPC network"):
        place.group(attachment.id, **given)


def test_a_global_balancer_reaches_a_region_through_its_attachment(place: Place) -> None:
    group = place.group(place.published().id)
    assert place.service(group.id).outputs["name"] == "front"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"loadBalancingScheme": "EXTERNAL"}, "Must be EXTERNAL_MANAGED"),
        ({"healthChecks": "probes"}, "healthChecks': Must be empty"),
        ({"capacityScaler": 0}, "capacityScaler': Not available"),
        ({"maxRate": 5, "balancingMode": "RATE"}, "maxRate': Not available"),
        ({"balancingMode": "CONNECTION"}, "balancingMode': Not available"),
    ],
)
def test_backends_of_private_service_connect_have_no_such_thing(
    place: Place, change: dict[str, Any], expected: str
) -> None:
    group = place.group(place.published().id)
    place.check(sourceRegions=None)
    fields = {"loadBalancingScheme", "healthChecks"}
    backend = {key: value for key, value in change.items() if key not in fields}
    more = {key: value for key, value in change.items() if key in fields}
    with pytest.raises(Refused, match=expected):
        place.service(**more, backends=[{"group": group.id, **backend}])


def test_the_defaults_of_the_provider_are_no_target_capacity(place: Place) -> None:
    made = place.service(place.group(place.published().id).id)
    (backend,) = made.inputs["backends"]
    assert (backend["balancingMode"], backend["capacityScaler"]) == ("UTILIZATION", 1)


def test_a_region_is_a_backend_once(place: Place) -> None:
    attachment = place.published().id
    groups = place.group(attachment).id, place.group(attachment, "other").id
    with pytest.raises(Refused, match="another PRIVATE_SERVICE_CONNECT group of us-central1"):
        place.service(*groups)


def test_a_global_balancer_needs_global_access_to_the_gateway(place: Place) -> None:
    group = place.group(place.published(is_global=False).id)
    with pytest.raises(Refused, match="'gkegw1' must have global access"):
        place.service(group.id)


def test_the_schemes_of_rule_and_backends_match(place: Place) -> None:
    group = place.group(place.published().id)
    place.create("compute/uRLMap:URLMap", "front", defaultService=place.service(group.id).id)
    place.create("compute/targetHttpProxy:TargetHttpProxy", "front", urlMap="front")
    token, rule = "compute/globalForwardingRule:GlobalForwardingRule", {"portRange": "80"}
    with pytest.raises(Refused, match="EXTERNAL does not match that of 'front', EXTERNAL_MANAGED"):
        place.create(token, "plain", target="front", **rule, loadBalancingScheme="EXTERNAL")
    scheme = {"loadBalancingScheme": "EXTERNAL_MANAGED"}
    place.create(token, "front", target="front", **rule, **scheme)
    with pytest.raises(Refused, match="was not found"):
        place.create(token, "other", target="gone", **rule, **scheme)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"checkIntervalSec": 10, "timeoutSec": 5}, "at least 30"),
        ({"httpsHealthCheck": {"proxyHeader": "PROXY_V1"}}, "proxyHeader': Not supported"),
    ],
)
def test_probes_that_cloud_dns_cannot_read_are_refused(
    place: Place, change: dict[str, Any], expected: str
) -> None:
    with pytest.raises(Refused, match=expected):
        place.check(**change)


def record(place: Place, zone: str, targets: dict[str, Any], **policy: Any) -> Made:
    geo = {"location": REGION, "healthCheckedTargets": targets}
    inputs = {
        "managedZone": zone,
        "name": "models.example.com.",
        "routingPolicy": {"geos": [geo], **policy},
        "ttl": 30,
        "type": "A",
    }
    return place.cloud.create("gcp:dns/recordSet:RecordSet", "record", inputs)


INNER = {
    "internalLoadBalancers": [
        {
            "ipAddress": "10.0.0.9",
            "ipProtocol": "tcp",
            "loadBalancerType": "regionalL7ilb",
            "networkUrl": "net",
            "port": "443",
            "project": PROJECT,
            "region": REGION,
        }
    ]
}
OUTER = {"externalEndpoints": ["203.0.113.1"]}


def test_a_policy_checks_external_targets_by_probes_and_internal_ones_without(place: Place) -> None:
    for name, visibility in (("open", "public"), ("inner", "private")):
        place.create(
            "dns/managedZone:ManagedZone",
            name,
            description=name,
            dnsName="example.com.",
            visibility=visibility,
        )
    check = place.check().id
    with pytest.raises(Refused, match="External endpoints need"):
        record(place, "open", OUTER)
    with pytest.raises(Refused, match="need a public zone"):
        record(place, "inner", OUTER, healthCheck=check)
    with pytest.raises(Refused, match="need a private zone"):
        record(place, "open", INNER)
    assert record(place, "open", OUTER, healthCheck=check).outputs["ttl"] == 30


@pytest.mark.parametrize(
    ("kind", "region", "expected"),
    [
        ("globalL7ilb", REGION, "Must be empty with the type globalL7ilb"),
        ("regionalL7ilb", None, "Must be set with the type regionalL7ilb"),
        (None, REGION, "Must be one of globalL7ilb"),
    ],
)
def test_a_target_names_its_region_if_its_load_balancer_is_regional(
    place: Place, kind: str | None, region: str | None, expected: str
) -> None:
    place.create(
        "dns/managedZone:ManagedZone",
        "inner",
        description="inner",
        dnsName="example.com.",
        visibility="private",
    )
    (target,) = INNER["internalLoadBalancers"]
    changed = {**target, "loadBalancerType": kind, "region": region}
    with pytest.raises(Refused, match=expected):
        record(place, "inner", {"internalLoadBalancers": [changed]})
    wide = {**target, "loadBalancerType": "globalL7ilb", "region": None}
    assert record(place, "inner", {"internalLoadBalancers": [wide]}).outputs["ttl"] == 30


def test_a_proxy_takes_a_certificate_map_by_its_full_name(place: Place) -> None:
    group = place.group(place.published().id)
    place.create("compute/uRLMap:URLMap", "front", defaultService=place.service(group.id).id)
    made = place.create("certificatemanager/certificateMap:CertificateMap", "front")
    place.create(
        "certificatemanager/certificateMapEntry:CertificateMapEntry",
        "front",
        certificates=[f"projects/{PROJECT}/locations/global/certificates/models"],
        map="front",
        matcher="PRIMARY",
    )
    named = f"//certificatemanager.googleapis.com/{made.id}"
    token = "compute/targetHttpsProxy:TargetHttpsProxy"
    assert place.create(token, "front", urlMap="front", certificateMap=named).name == "front"
    with pytest.raises(Refused, match="was not found"):
        place.create(token, "other", urlMap="front", certificateMap=named + "-gone")


def test_a_proxy_validates_clients_with_a_global_policy_and_its_authorities(
    place: Place, tmp_path: Path
) -> None:
    group = place.group(place.published().id)
    place.create("compute/uRLMap:URLMap", "front", defaultService=place.service(group.id).id)
    trust = place.create(
        "certificatemanager/trustConfig:TrustConfig",
        "clients",
        location="global",
        trustStores=[{"trustAnchors": [{"pemCertificate": Authority(tmp_path).certificate}]}],
    )

    def proxy(name: str, location: str = "global", **policy: Any) -> Any:
        made = place.create(
            "networksecurity/serverTlsPolicy:ServerTlsPolicy",
            name,
            location=location,
            mtlsPolicy=policy,
        )
        token = "compute/targetHttpsProxy:TargetHttpsProxy"
        return place.create(token, name, urlMap="front", serverTlsPolicy=made.id)

    valid = {"clientValidationMode": "REJECT_INVALID", "clientValidationTrustConfig": trust.id}
    assert proxy("clients", **valid).name == "clients"
    with pytest.raises(Refused, match="must have a client validation mode"):
        proxy("without-mode", clientValidationTrustConfig=trust.id)
    with pytest.raises(Refused, match="must be global"):
        proxy("regional", "us-central1", **valid)
    with pytest.raises(Refused, match="was not found"):
        proxy("gone", **(valid | {"clientValidationTrustConfig": f"{trust.id}-gone"}))


def test_an_authority_that_is_not_a_certificate_is_refused(place: Place) -> None:
    stores = [{"trustAnchors": [{"pemCertificate": "-----BEGIN CERTIFICATE-----"}]}]
    token = "certificatemanager/trustConfig:TrustConfig"
    with pytest.raises(Refused, match=r"trustAnchors\[0\].*Must be a certificate in PEM format"):
        place.create(token, "clients", location="global", trustStores=stores)


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        (["X-A: 1", "x-a: 2"], "'x-a' is there already"),
        (["X-Goog-A: 1"], "'x-goog-a' is reserved"),
        ([f"X-{at}: 1" for at in range(17)], "At most 16 headers"),
    ],
)
def test_custom_headers_of_a_backend_service_are_checked(
    place: Place, headers: list[str], message: str
) -> None:
    group = place.group(place.published().id)
    with pytest.raises(Refused, match=message):
        place.service(group.id, customRequestHeaders=headers)


def test_a_change_is_refused_like_a_new_resource(place: Place, tmp_path: Path) -> None:
    group = place.group(place.published().id)
    service = place.service(group.id)
    with pytest.raises(Refused, match="'x-goog-a' is reserved"):
        place.cloud.update(service, service.inputs | {"customRequestHeaders": ["X-Goog-A: 1"]})
    place.create("compute/uRLMap:URLMap", "front", defaultService=service.id)
    proxy = place.create("compute/targetHttpsProxy:TargetHttpsProxy", "front", urlMap="front")
    policy = place.create(
        "networksecurity/serverTlsPolicy:ServerTlsPolicy", "clients", location="global"
    )
    with pytest.raises(Refused, match="must have a client validation mode"):
        place.cloud.update(proxy, proxy.inputs | {"serverTlsPolicy": policy.id})
