"""References between resources, and their effect on creation and deletion."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from twin.providers.gcp.checks.suppress import relative_path
from twin.providers.gcp.resources.identity import names_in
from twin.providers.gcp.resources.registries import CREDENTIAL_PATH
from twin.providers.gcp.schema import Resource
from twin.wire.property_values import Json, as_list, as_object, is_unknown, last_segment
from twin.world.store import Record, Store, Use

NETWORK = "gcp:compute/network:Network"
SUBNETWORK = "gcp:compute/subnetwork:Subnetwork"
CLUSTER = "gcp:container/cluster:Cluster"
BUCKET = "gcp:storage/bucket:Bucket"
ACCOUNT = "gcp:serviceaccount/account:Account"
_ADDRESSES = ("gcp:compute/address:Address", "gcp:compute/globalAddress:GlobalAddress")
_BACKENDS = (
    "gcp:compute/backendService:BackendService",
    "gcp:compute/regionBackendService:RegionBackendService",
)
_CHECKS = (
    "gcp:compute/healthCheck:HealthCheck",
    "gcp:compute/regionHealthCheck:RegionHealthCheck",
)
_URL_MAPS = ("gcp:compute/uRLMap:URLMap", "gcp:compute/regionUrlMap:RegionUrlMap")
FORWARDING_RULE = "gcp:compute/forwardingRule:ForwardingRule"
RUN_SERVICE = "gcp:cloudrunv2/service:Service"
ATTACHMENT = "gcp:compute/serviceAttachment:ServiceAttachment"
HEALTH_CHECK = "gcp:compute/healthCheck:HealthCheck"
RESOURCE_POLICY = "gcp:compute/resourcePolicy:ResourcePolicy"
ZONE = "gcp:dns/managedZone:ManagedZone"
SERVER_TLS_POLICY = "gcp:networksecurity/serverTlsPolicy:ServerTlsPolicy"
_TRUST_CONFIG = "gcp:certificatemanager/trustConfig:TrustConfig"
_GROUPS = (
    "gcp:compute/regionNetworkEndpointGroup:RegionNetworkEndpointGroup",
    "gcp:compute/networkEndpointGroup:NetworkEndpointGroup",
    "gcp:compute/globalNetworkEndpointGroup:GlobalNetworkEndpointGroup",
)
_CERTIFICATE_MAP = "gcp:certificatemanager/certificateMap:CertificateMap"
_PROXIES = (
    "gcp:compute/targetHttpProxy:TargetHttpProxy",
    "gcp:compute/regionTargetHttpProxy:RegionTargetHttpProxy",
    "gcp:compute/targetHttpsProxy:TargetHttpsProxy",
    "gcp:compute/regionTargetHttpsProxy:RegionTargetHttpsProxy",
)
_TOPIC = "gcp:pubsub/topic:Topic"
_SECRET = "gcp:secretmanager/secret:Secret"  # noqa: S105 - a resource type
_SECRET_VERSION = "gcp:secretmanager/secretVersion:SecretVersion"  # noqa: S105 - a resource type
_KEY = "gcp:kms/cryptoKey:CryptoKey"
_IMAGE = "gcp:compute/image:Image"
_SNAPSHOT = "gcp:compute/snapshot:Snapshot"
_BUILD_REPOSITORY = "gcp:cloudbuildv2/repository:Repository"
_PUBLIC_IMAGES = frozenset(
    [
        "centos-cloud",
        "coreos-cloud",
        "cos-cloud",
        "debian-cloud",
        "fedora-coreos-cloud",
        "opensuse-cloud",
        "rhel-cloud",
        "rhel-sap-cloud",
        "rocky-linux-cloud",
        "suse-cloud",
        "suse-sap-cloud",
        "ubuntu-os-cloud",
        "ubuntu-os-pro-cloud",
        "windows-cloud",
        "windows-sql-cloud",
    ]
)
"""Projects of public images: `ImageMap` of terraform-provider-google (services/compute/image.go),
and the projects that public scripts list beside these (read 2026-11-23)."""
_ACROSS_PROJECTS = {
    NETWORK,
    SUBNETWORK,
    _IMAGE,
    _SNAPSHOT,
    _BUILD_REPOSITORY,
    _SECRET_VERSION,
}
"""Types whose resources must exist in other projects, too."""


@dataclass(frozen=True)
class Reference:
    """A property that references another resource."""

    path: str
    """CamelCase path, `[]` after a list: `reservedPeeringRanges[]`, `subnetworks[].name`."""
    targets: tuple[str, ...]
    """Types that it can reference."""
    blocks: bool = True
    """Whether the target cannot be deleted while this resource exists."""
    must_exist: bool = True
    beside: str = ""
    """Property with the path of a resource in whose project a bare name is looked up."""


def _to(
    path: str, *targets: str, blocks: bool = True, must_exist: bool = True, beside: str = ""
) -> Reference:
    return Reference(path, targets, blocks, must_exist, beside)


_NET, _SUB = _to("network", NETWORK), _to("subnetwork", SUBNETWORK)
_REFERENCES: dict[str, tuple[Reference, ...]] = {
    "artifactregistry/repository": (_to(CREDENTIAL_PATH, _SECRET_VERSION, blocks=False),),
    "artifactregistry/repositoryIamMember": (
        _to("repository", "gcp:artifactregistry/repository:Repository", blocks=False),
    ),
    "compute/address": (_to("network", NETWORK), _SUB),
    "certificatemanager/certificateMapEntry": (
        _to("map", _CERTIFICATE_MAP),
        _to("certificates[]", "gcp:certificatemanager/certificate:Certificate", must_exist=False),
    ),
    "compute/backendService": (
        _to("healthChecks", *_CHECKS),
        _to("backends[].group", *_GROUPS, must_exist=False),
        _to("securityPolicy", "gcp:compute/securityPolicy:SecurityPolicy"),
    ),
    "cloudbuild/trigger": (
        _to("repositoryEventConfig.repository", _BUILD_REPOSITORY, blocks=False),
    ),
    "compute/disk": (
        _to("image", _IMAGE, blocks=False),
        _to("snapshot", _SNAPSHOT, blocks=False),
    ),
    "compute/firewall": (_NET,),
    "compute/forwardingRule": (
        _NET,
        _SUB,
        _to("ipAddress", *_ADDRESSES, must_exist=False),
        _to("backendService", *_BACKENDS),
        _to("target", *_PROXIES, must_exist=False),
        _to("target", ATTACHMENT, blocks=False, must_exist=False),
    ),
    "compute/globalAddress": (_NET,),
    "compute/globalForwardingRule": (
        _to("ipAddress", *_ADDRESSES, must_exist=False),
        _to("target", *_PROXIES),
    ),
    "compute/networkAttachment": (_to("subnetworks[]", SUBNETWORK),),
    "compute/networkEndpointGroup": (_NET, _SUB),
    "compute/regionBackendService": (_to("healthChecks", *_CHECKS), _NET),
    "compute/regionNetworkEndpointGroup": (
        _NET,
        _SUB,
        _to("pscTargetService", ATTACHMENT, blocks=False, must_exist=False),
        _to("cloudRun.service", RUN_SERVICE),
    ),
    "cloudrunv2/service": (
        _to("template.vpcAccess.networkInterfaces[].network", NETWORK),
        _to("template.vpcAccess.networkInterfaces[].subnetwork", SUBNETWORK),
    ),
    "compute/regionTargetHttpsProxy": (_to("urlMap", *_URL_MAPS),),
    "compute/regionUrlMap": (_to("defaultService", *_BACKENDS),),
    "compute/router": (_NET,),
    "compute/routerNat": (
        _to("router", "gcp:compute/router:Router"),
        _to("subnetworks[].name", SUBNETWORK),
        _to("natIps[]", *_ADDRESSES),
    ),
    "compute/serviceAttachment": (
        _to("natSubnets[]", SUBNETWORK),
        _to("targetService", FORWARDING_RULE),
    ),
    "compute/subnetwork": (_NET,),
    "compute/targetHttpProxy": (_to("urlMap", *_URL_MAPS),),
    "compute/targetHttpsProxy": (
        _to("urlMap", *_URL_MAPS),
        _to("certificateMap", _CERTIFICATE_MAP),
        _to("serverTlsPolicy", SERVER_TLS_POLICY),
        _to("sslPolicy", "gcp:compute/sSLPolicy:SSLPolicy"),
    ),
    "compute/uRLMap": (
        _to("defaultService", *_BACKENDS),
        _to("pathMatchers[].defaultService", *_BACKENDS),
        _to("pathMatchers[].routeRules[].service", *_BACKENDS),
    ),
    "container/cluster": (
        _NET,
        _SUB,
        _to("nodeConfig.serviceAccount", ACCOUNT, blocks=False),
        _to(
            "clusterAutoscaling.autoProvisioningDefaults.serviceAccount",
            ACCOUNT,
            blocks=False,
        ),
        _to("databaseEncryption.keyName", _KEY, blocks=False),
    ),
    "container/nodePool": (
        _to("cluster", CLUSTER, blocks=False),
        _to("nodeConfig.serviceAccount", ACCOUNT, blocks=False),
        _to("nodeConfig.secondaryBootDisks[].diskImage", _IMAGE, blocks=False),
        _to("placementPolicy.policyName", RESOURCE_POLICY),
        _to("networkConfig.additionalNodeNetworkConfigs[].network", NETWORK),
        _to("networkConfig.additionalNodeNetworkConfigs[].subnetwork", SUBNETWORK),
    ),
    "dataflow/flexTemplateJob": (
        _NET,
        _SUB,
        _to("serviceAccountEmail", ACCOUNT, blocks=False),
        _to("kmsKeyName", _KEY, blocks=False),
    ),
    "dns/recordSet": (
        _to("managedZone", ZONE),
        _to("routingPolicy.healthCheck", HEALTH_CHECK),
    ),
    "iam/workloadIdentityPoolProvider": (
        _to("workloadIdentityPoolId", "gcp:iam/workloadIdentityPool:WorkloadIdentityPool"),
    ),
    "filestore/instance": (_to("networks[].network", NETWORK),),
    "iap/webBackendServiceIamMember": (
        _to("webBackendService", "gcp:compute/backendService:BackendService", blocks=False),
    ),
    "kms/cryptoKey": (_to("keyRing", "gcp:kms/keyRing:KeyRing"),),
    "kms/cryptoKeyIAMMember": (_to("cryptoKeyId", _KEY, blocks=False),),
    "lustre/instance": (_NET,),
    "memorystore/instance": (
        _to("desiredAutoCreatedEndpoints[].network", NETWORK),
        _to("desiredPscAutoConnections[].network", NETWORK),
    ),
    "monitoring/slo": (_to("service", "gcp:monitoring/customService:CustomService"),),
    "monitoring/alertPolicy": (
        _to(
            "notificationChannels[]",
            "gcp:monitoring/notificationChannel:NotificationChannel",
        ),
    ),
    "networkconnectivity/serviceConnectionPolicy": (
        _NET,
        _to("pscConfig.subnetworks[]", SUBNETWORK),
    ),
    "networksecurity/serverTlsPolicy": (
        _to("mtlsPolicy.clientValidationTrustConfig", _TRUST_CONFIG),
    ),
    "pubsub/subscription": (
        _to("topic", _TOPIC, blocks=False),
        _to("deadLetterPolicy.deadLetterTopic", _TOPIC),
    ),
    "pubsub/subscriptionIAMMember": (
        _to("subscription", "gcp:pubsub/subscription:Subscription", blocks=False),
    ),
    "pubsub/topicIAMMember": (_to("topic", _TOPIC, blocks=False),),
    "secretmanager/secretIamMember": (_to("secretId", _SECRET, blocks=False),),
    "secretmanager/secretVersion": (_to("secret", _SECRET, blocks=False),),
    "serviceaccount/iAMMember": (_to("serviceAccountId", ACCOUNT, blocks=False),),
    "servicenetworking/connection": (
        _NET,
        _to(  # it has no project of its own
            "reservedPeeringRanges[]", "gcp:compute/globalAddress:GlobalAddress", beside="network"
        ),
    ),
    "storage/anywhereCache": (_to("bucket", BUCKET, blocks=False),),
    "storage/bucketIAMMember": (_to("bucket", BUCKET, blocks=False),),
    "storage/bucketObject": (_to("bucket", BUCKET, blocks=False),),
    "storage/managedFolder": (_to("bucket", BUCKET, blocks=False),),
}


@dataclass(frozen=True)
class Link:
    """A reference of a resource."""

    path: str
    value: str
    reference: Reference
    target: Record | None
    is_checked: bool
    """Whether a missing target is an error; false for other projects and Google's own resources."""


def links(known: Resource, inputs: Json, project: str, store: Store) -> Iterator[Link]:
    """Yield the references of a resource, resolved if the target exists."""
    for reference in _REFERENCES.get(known.kind, ()):
        home = _project_of(str(inputs.get(reference.beside) or "")) or project
        for value in _values(inputs, reference.path.split(".")):
            for name in names_in(value):
                if not name or is_unknown(name):
                    continue
                target = resolve(reference.targets, name, inputs, home, store)
                checked = reference.must_exist and not _is_foreign(reference, name, home)
                yield Link(reference.path.replace("[]", ""), name, reference, target, checked)


def _project_of(value: str) -> str:
    """Return the project of a path; empty for a bare name."""
    parts = relative_path(value).split("/")
    return parts[1] if parts[0] == "projects" and len(parts) > 1 else ""


def uses(found: list[Link]) -> list[Use]:
    """Return references in the format of the store."""
    return [
        Use(link.target.type, link.target.id, link.reference.blocks)
        for link in found
        if link.target is not None
    ]


def _values(value: Any, parts: list[str]) -> Iterator[Any]:
    if not parts:
        yield value
        return
    mapping = as_object(value)
    if mapping is None:
        return
    inner = mapping.get(parts[0].removesuffix("[]"))
    for item in as_list(inner) or [] if parts[0].endswith("[]") else [inner]:
        yield from _values(item, parts[1:])


def resolve(
    targets: tuple[str, ...], value: str, inputs: Json, project: str, store: Store
) -> Record | None:
    """Return the resource for a link, ID, name, email or address, or None.

    A bare name is looked up in the project and, for regional types, in the region of `inputs`.
    """
    path = relative_path(value)
    name = last_segment(path)
    for token in targets:
        found = store.get(token, path)
        if found is not None:
            return found
        candidates = store.find(token, name)
        if token in _ADDRESSES and not candidates:
            candidates = [item for item in store.find(token) if item.outputs.get("address") == name]
        for item in candidates:
            if _matches(item, path, inputs, project):
                return item
    return None


def _matches(item: Record, path: str, inputs: Json, project: str) -> bool:
    if "/" in path:
        mine, theirs = path.split("/"), item.id.split("/")
        return path == item.id or mine == theirs[-len(mine) :]
    place = inputs.get("region") or inputs.get("location")
    theirs = item.outputs.get("region") or item.outputs.get("location")
    in_place = not place or not theirs or item.type == BUCKET or str(place).startswith(str(theirs))
    return in_place and item.project in (project, "")


def _is_foreign(reference: Reference, value: str, project: str) -> bool:
    path = relative_path(value)
    parts = path.split("/")
    if _IMAGE in reference.targets and _is_published(parts):
        return True
    if parts[0] == "projects" and len(parts) > 1 and parts[1] not in (project, "-"):
        return not _ACROSS_PROJECTS & set(reference.targets)
    if NETWORK in reference.targets and last_segment(path) == "default":
        return True
    if ACCOUNT in reference.targets:
        return value == "default" or not value.endswith(f"@{project}.iam.gserviceaccount.com")
    return False


def _is_published(parts: list[str]) -> bool:
    """Return whether a disk image is in a project of public images, or in a family.

    A name alone is an image of the own project.
    """
    project = parts[1] if parts[0] == "projects" and len(parts) > 1 else parts[0]
    return "family" in parts or (len(parts) > 1 and project in _PUBLIC_IMAGES)


_OUTLIVE = {"pubsub/subscription", "container/cluster"}


def owned(token: str, parent: str) -> bool:
    """Return whether resources of a type are deleted with their first `parent`."""
    kind = token.split(":")[1]
    first = _REFERENCES.get(kind, ())[:1]
    return (
        kind not in _OUTLIVE and bool(first) and parent in first[0].targets and not first[0].blocks
    )
