"""Identifiers of resources in Google's APIs and in the provider, by type and inputs."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

_P: Final = "projects/{project}/"
_GLOBAL: Final = _P + "global/"
_REGION: Final = _P + "regions/{region}/"
_ZONE: Final = _P + "zones/{zone}/"
_PLACE: Final = _P + "locations/{location}/"
_COMPUTE: Final = "compute.googleapis.com/compute/v1"

_OF_COMPUTE: Final = {
    "address:Address": _REGION + "addresses/{name}",
    "backendService:BackendService": _GLOBAL + "backendServices/{name}",
    "disk:Disk": _ZONE + "disks/{name}",
    "firewall:Firewall": _GLOBAL + "firewalls/{name}",
    "forwardingRule:ForwardingRule": _REGION + "forwardingRules/{name}",
    "futureReservation:FutureReservation": _ZONE + "futureReservations/{name}",
    "globalAddress:GlobalAddress": _GLOBAL + "addresses/{name}",
    "globalForwardingRule:GlobalForwardingRule": _GLOBAL + "forwardingRules/{name}",
    "healthCheck:HealthCheck": _GLOBAL + "healthChecks/{name}",
    "image:Image": _GLOBAL + "images/{name}",
    "network:Network": _GLOBAL + "networks/{name}",
    "regionNetworkEndpointGroup:RegionNetworkEndpointGroup": _REGION
    + "networkEndpointGroups/{name}",
    "regionSecurityPolicy:RegionSecurityPolicy": _REGION + "securityPolicies/{name}",
    "regionSslPolicy:RegionSslPolicy": _REGION + "sslPolicies/{name}",
    "resourcePolicy:ResourcePolicy": _REGION + "resourcePolicies/{name}",
    "router:Router": _REGION + "routers/{name}",
    "sSLPolicy:SSLPolicy": _GLOBAL + "sslPolicies/{name}",
    "securityPolicy:SecurityPolicy": _GLOBAL + "securityPolicies/{name}",
    "serviceAttachment:ServiceAttachment": _REGION + "serviceAttachments/{name}",
    "snapshot:Snapshot": _GLOBAL + "snapshots/{name}",
    "subnetwork:Subnetwork": _REGION + "subnetworks/{name}",
    "targetHttpProxy:TargetHttpProxy": _GLOBAL + "targetHttpProxies/{name}",
    "targetHttpsProxy:TargetHttpsProxy": _GLOBAL + "targetHttpsProxies/{name}",
    "uRLMap:URLMap": _GLOBAL + "urlMaps/{name}",
}
_APIGEE: Final = "apigee.googleapis.com/v1"
_CERTIFICATES: Final = "certificatemanager.googleapis.com/v1"
_MAPS: Final = _P + "locations/global/certificateMaps/"
_FLEET: Final = "gkehub.googleapis.com/v1"
_KMS: Final = "cloudkms.googleapis.com/v1"
_PUBSUB: Final = "pubsub.googleapis.com/v1"

IDENTIFIERS: Final[Mapping[str, tuple[str, str]]] = {
    **{f"gcp:compute/{kind}": (_COMPUTE, form) for kind, form in _OF_COMPUTE.items()},
    "gcp:apigee/developer:Developer": (_APIGEE, "{orgId}/developers/{email}"),
    "gcp:apigee/developerApp:DeveloperApp": (
        _APIGEE,
        "{orgId}/developers/{developerEmail}/apps/{name}",
    ),
    "gcp:artifactregistry/repository:Repository": (
        "artifactregistry.googleapis.com/v1",
        _PLACE + "repositories/{repositoryId}",
    ),
    "gcp:binaryauthorization/attestor:Attestor": (
        "binaryauthorization.googleapis.com/v1",
        _P + "attestors/{name}",
    ),
    "gcp:certificatemanager/certificate:Certificate": (
        _CERTIFICATES,
        _PLACE + "certificates/{name}",
    ),
    "gcp:certificatemanager/certificateMap:CertificateMap": (_CERTIFICATES, _MAPS + "{name}"),
    "gcp:certificatemanager/certificateMapEntry:CertificateMapEntry": (
        _CERTIFICATES,
        _MAPS + "{map}/certificateMapEntries/{name}",
    ),
    "gcp:cloudrunv2/service:Service": (
        "run.googleapis.com/v2",
        _PLACE + "services/{name}",
    ),
    "gcp:certificatemanager/dnsAuthorization:DnsAuthorization": (
        _CERTIFICATES,
        _PLACE + "dnsAuthorizations/{name}",
    ),
    "gcp:certificatemanager/trustConfig:TrustConfig": (
        _CERTIFICATES,
        _PLACE + "trustConfigs/{name}",
    ),
    "gcp:container/cluster:Cluster": ("container.googleapis.com/v1", _PLACE + "clusters/{name}"),
    "gcp:container/nodePool:NodePool": (
        "container.googleapis.com/v1",
        _PLACE + "clusters/{cluster}/nodePools/{name}",
    ),
    "gcp:containeranalysis/note:Note": (
        "containeranalysis.googleapis.com/v1",
        _P + "notes/{name}",
    ),
    "gcp:dns/recordSet:RecordSet": (
        "dns.googleapis.com/dns/v1",
        _P + "managedZones/{managedZone}/rrsets/{name}/{type}",
    ),
    "gcp:filestore/instance:Instance": ("file.googleapis.com/v1", _PLACE + "instances/{name}"),
    "gcp:gkehub/feature:Feature": (_FLEET, _PLACE + "features/{name}"),
    "gcp:gkehub/membership:Membership": (_FLEET, _PLACE + "memberships/{membershipId}"),
    "gcp:kms/cryptoKey:CryptoKey": (_KMS, "{keyRing}/cryptoKeys/{name}"),
    "gcp:kms/keyRing:KeyRing": (_KMS, _PLACE + "keyRings/{name}"),
    "gcp:lustre/instance:Instance": (
        "lustre.googleapis.com/v1",
        _PLACE + "instances/{instanceId}",
    ),
    "gcp:memorystore/instance:Instance": (
        "memorystore.googleapis.com/v1",
        _PLACE + "instances/{instanceId}",
    ),
    "gcp:modelarmor/template:Template": (
        "modelarmor.{location}.rep.googleapis.com/v1",
        _PLACE + "templates/{templateId}",
    ),
    "gcp:networkconnectivity/serviceConnectionPolicy:ServiceConnectionPolicy": (
        "networkconnectivity.googleapis.com/v1",
        _PLACE + "serviceConnectionPolicies/{name}",
    ),
    "gcp:networksecurity/serverTlsPolicy:ServerTlsPolicy": (
        "networksecurity.googleapis.com/v1",
        _PLACE + "serverTlsPolicies/{name}",
    ),
    "gcp:projects/iAMCustomRole:IAMCustomRole": (
        "iam.googleapis.com/v1",
        _P + "roles/{roleId}",
    ),
    "gcp:pubsub/subscription:Subscription": (_PUBSUB, _P + "subscriptions/{name}"),
    "gcp:pubsub/topic:Topic": (_PUBSUB, _P + "topics/{name}"),
    "gcp:secretmanager/secret:Secret": (
        "secretmanager.googleapis.com/v1",
        _P + "secrets/{secretId}",
    ),
    "gcp:serviceaccount/account:Account": (
        "iam.googleapis.com/v1",
        _P + "serviceAccounts/{accountId}@{project}.iam.gserviceaccount.com",
    ),
    "gcp:storage/bucket:Bucket": ("storage.googleapis.com/storage/v1/b", "{name}"),
}
"""By type, the host and version of the API that shows a resource, and its identifier there and in
the provider (each resource's page under registry.terraform.io/providers/hashicorp/google, section
Import; the paths are those of the APIs' REST references; 2026-11-23)."""

CONNECTION: Final = "gcp:servicenetworking/connection:Connection"
"""Type that no address of an API shows: a peering of its network is looked for."""

_GLOBAL_BY_DEFAULT: Final = ("gcp:certificatemanager/", "gcp:gkehub/membership:")
_NAMES_ONLY: Final = ("cluster", "managedZone", "map")
"""Inputs that can be a whole path; the identifier has its last segment."""


def identifier_of(kind: str, inputs: Mapping[str, Any], project: str) -> tuple[str, str] | None:
    """Return the host and the identifier of a resource, or None.

    There is none for a type without identifier of its own, and for a resource whose name the
    provider chooses.

    Args:
        kind: Type of the resource.
        inputs: Its inputs in camelCase.
        project: Project of inputs that name none.
    """
    if kind not in IDENTIFIERS:
        return None
    host, form = IDENTIFIERS[kind]
    place = {"location": "global"} if kind.startswith(_GLOBAL_BY_DEFAULT) else {}
    values = {"project": project, **place, **inputs}
    for key in _NAMES_ONLY:
        if isinstance(values.get(key), str):
            values[key] = values[key].rpartition("/")[2]
    try:
        return host.format_map(values), form.format_map(values)
    except KeyError:
        return None


def connection_of(inputs: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return where a connection to Google's services is seen, and its identifier.

    The name of the peering is that of the service with dashes; the identifier is the provider's
    (terraform-provider-google, resource_service_networking_connection.go, 0f00040, 2026-11-23).

    Args:
        inputs: Inputs of the connection in camelCase.

    Returns:
        The address of the network, the name of the peering in it, and the identifier.
    """
    network, service = str(inputs["network"]), str(inputs["service"])
    path = network[max(0, network.find("projects/")) :]
    identifier = f"{quote(network, safe='')}:{quote(service, safe='')}"
    return f"{_COMPUTE}/{path}", service.replace(".", "-"), identifier
