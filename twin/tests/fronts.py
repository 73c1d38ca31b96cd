"""A cloud with a global load balancer over gateways, made through the provider that checks it."""

from typing import Any

from gke_inference.front.client_certificates import CERTIFICATE_HEADERS
from gke_inference.front.routes import OUTLIER_DETECTION
from twin.providers.gcp.resources.references import FORWARDING_RULE
from twin.tests.unit.gcp.conftest import PROJECT, Cloud, Made
from twin.world.store import new_record

ADDRESS = "127.32.250.1"
REGIONS = ("us-central1", "europe-west4", "asia-northeast1")


def create(cloud: Cloud, kind: str, name: str, **inputs: Any) -> Made:
    """Create a resource that has its name as its URN."""
    return cloud.create(f"gcp:{kind}", name, {"name": name, **inputs})


def gateway_rule(cloud: Cloud, region: str, address: str, *, is_global: bool = True) -> str:
    """Add the forwarding rule of a region's internal Gateway, as GKE makes it; return its link."""
    name = f"gkegw1-{region}"
    path = f"projects/{PROJECT}/regions/{region}/forwardingRules/{name}"
    outputs = {
        "allowGlobalAccess": is_global,
        "ipAddress": address,
        "loadBalancingScheme": "INTERNAL_MANAGED",
        "name": name,
    }
    store = cloud.world.store
    store.add(new_record(FORWARDING_RULE, path, name, PROJECT, "", {}, outputs), [])
    store.set(FORWARDING_RULE, path, status="ready")
    return f"https://www.googleapis.com/compute/v1/{path}"


def publish(cloud: Cloud, region: str, at: int, rule: str, port: int) -> Made:
    """Publish a gateway, and return the group that connects to it."""
    subnet = create(
        cloud,
        "compute/subnetwork:Subnetwork",
        f"published-{region}",
        ipCidrRange=f"10.3.{at}.0/24",
        network="net",
        purpose="PRIVATE_SERVICE_CONNECT",
        region=region,
    )
    attachment = create(
        cloud,
        "compute/serviceAttachment:ServiceAttachment",
        f"published-{region}",
        connectionPreference="ACCEPT_MANUAL",
        consumerAcceptLists=[{"projectIdOrNum": PROJECT, "connectionLimit": 10}],
        enableProxyProtocol=False,
        natSubnets=[subnet.id],
        region=region,
        targetService=rule,
    )
    return create(
        cloud,
        "compute/regionNetworkEndpointGroup:RegionNetworkEndpointGroup",
        f"group-{region}",
        network="front",
        networkEndpointType="PRIVATE_SERVICE_CONNECT",
        pscData={"producerPort": str(port)},
        pscTargetService=attachment.id,
        region=region,
    )


def service(cloud: Cloud, name: str, groups: list[Made], **inputs: Any) -> Made:
    """Create a backend service over groups, with the outlier detection of the components."""
    return create(
        cloud,
        "compute/backendService:BackendService",
        name,
        backends=[{"group": group.id} for group in groups],
        loadBalancingScheme="EXTERNAL_MANAGED",
        outlierDetection=camel(dict(OUTLIER_DETECTION)),
        protocol="HTTP",
        timeoutSec=600,
        **inputs,
    )


def make_front(
    cloud: Cloud,
    gateways: dict[str, str],
    port: int,
    *,
    listens: int = 80,
    validating: dict[int, str] | None = None,
    authority: str = "",
) -> None:
    """Make a load balancer over gateways, and one for a model that only the first region serves.

    Args:
        cloud: The provider.
        gateways: Address of each region's gateway.
        port: Of the gateways.
        listens: Port of the load balancer.
        validating: Ports on which it also serves HTTPS and validates client certificates, with the
            validation mode of each.
        authority: Trusted authority of client certificates, in PEM format.
    """
    for name in ("net", "front"):
        create(cloud, "compute/network:Network", name, autoCreateSubnetworks=False)
    groups = [
        publish(cloud, region, at, gateway_rule(cloud, region, address), port)
        for at, (region, address) in enumerate(gateways.items())
    ]
    headers = list(CERTIFICATE_HEADERS) if validating else []
    every = service(cloud, "front", groups, customRequestHeaders=headers)
    some = service(cloud, "front-small", groups[:1])
    again = {"retryPolicy": {"numRetries": 2, "retryConditions": ["connect-failure"]}}
    url_map = create(
        cloud,
        "compute/uRLMap:URLMap",
        "front",
        defaultService=every.id,
        hostRules=[{"hosts": ["*"], "pathMatcher": "models"}],
        pathMatchers=[
            {
                "defaultRouteAction": again,
                "defaultService": every.id,
                "name": "models",
                "routeRules": [
                    {
                        "matchRules": [{"prefixMatch": "/models/small/"}],
                        "priority": 1,
                        "routeAction": {**again, "urlRewrite": {"pathPrefixRewrite": "/"}},
                        "service": some.id,
                    }
                ],
            }
        ],
    )
    create(cloud, "compute/targetHttpProxy:TargetHttpProxy", "front", urlMap=url_map.id)
    create(
        cloud,
        "compute/globalForwardingRule:GlobalForwardingRule",
        "front",
        ipAddress=ADDRESS,
        loadBalancingScheme="EXTERNAL_MANAGED",
        portRange=str(listens),
        target="front",
    )

    if validating:
        _validate(cloud, validating, authority)


def let_people_in(cloud: Cloud, people: str, *members: str, host: str = "models.test") -> None:
    """Add a hostname for people to the load balancer, which members can sign in to."""
    store = cloud.world.store
    (every,) = store.find("gcp:compute/backendService:BackendService", "front")
    groups = [str(each["group"]) for each in every.inputs["backends"]]
    own = create(
        cloud,
        "compute/backendService:BackendService",
        "front-people",
        backends=[{"group": group} for group in groups],
        iap={"enabled": True},
        loadBalancingScheme="EXTERNAL_MANAGED",
        protocol="HTTP",
    )
    for member in members:
        cloud.create(
            "gcp:iap/webBackendServiceIamMember:WebBackendServiceIamMember",
            member,
            {
                "member": member,
                "role": "roles/iap.httpsResourceAccessor",
                "webBackendService": "front-people",
            },
        )
    (known,) = store.find("gcp:compute/uRLMap:URLMap", "front")
    rule = {"hosts": [people], "pathMatcher": "people"}
    matcher = {
        "defaultRouteAction": {"urlRewrite": {"hostRewrite": host}},
        "defaultService": own.id,
        "name": "people",
    }
    changed = {
        "hostRules": [*known.inputs["hostRules"], rule],
        "pathMatchers": [*known.inputs["pathMatchers"], matcher],
    }
    store.set(known.type, known.id, inputs={**known.inputs, **changed})


def _validate(cloud: Cloud, validating: dict[int, str], authority: str) -> None:
    """Make the proxies that validate client certificates."""
    certificates = create(cloud, "certificatemanager/certificateMap:CertificateMap", "front")
    create(
        cloud,
        "certificatemanager/certificateMapEntry:CertificateMapEntry",
        "front",
        certificates=[f"projects/{PROJECT}/locations/global/certificates/models"],
        map="front",
        matcher="PRIMARY",
    )
    trust = create(
        cloud,
        "certificatemanager/trustConfig:TrustConfig",
        "clients",
        location="global",
        trustStores=[{"trustAnchors": [{"pemCertificate": authority}]}],
    )
    for port, mode in validating.items():
        name = f"front-{port}"
        policy = create(
            cloud,
            "networksecurity/serverTlsPolicy:ServerTlsPolicy",
            name,
            location="global",
            mtlsPolicy={
                "clientValidationMode": mode,
                "clientValidationTrustConfig": trust.id,
            },
        )
        create(
            cloud,
            "compute/targetHttpsProxy:TargetHttpsProxy",
            name,
            certificateMap=f"//certificatemanager.googleapis.com/{certificates.id}",
            serverTlsPolicy=policy.id,
            urlMap="front",
        )
        create(
            cloud,
            "compute/globalForwardingRule:GlobalForwardingRule",
            name,
            ipAddress=ADDRESS,
            loadBalancingScheme="EXTERNAL_MANAGED",
            portRange=str(port),
            target=name,
        )


def camel(value: Any) -> Any:
    """Return arguments of Python as the engine sends them."""
    if not isinstance(value, dict):
        return value
    words = {key: key.split("_") for key in value}
    return {
        head + "".join(part.capitalize() for part in rest): camel(value[key])
        for key, (head, *rest) in words.items()
    }
