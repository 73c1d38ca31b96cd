"""Existing clusters and namespaces of a stack, which need the features of a created cluster."""

from collections.abc import Iterator
from typing import Any, Final

from gke_inference.catalogue.versions import gke_minimum, version_key
from infra.plan import RegionPlan
from infra.plan.gke_version import FROM_ZERO, scales_from_zero
from infra.stack import ClusterMode
from scripts.prerequisites.existing import thing
from scripts.prerequisites.finding import Finding, Project, State, judged
from scripts.shared.clusters import dns_endpoint
from scripts.shared.google_cloud import Json, NotFound, last

_CLUSTERS: Final = "container.googleapis.com/v1"


def existing_clusters(project: Project) -> Iterator[Finding]:
    """Yield whether each existing cluster has what the stack uses, and the namespace.

    Fields: docs.cloud.google.com/kubernetes-engine/docs/reference/rest/v1,
    projects.locations.clusters (2026-11-22).
    """
    for region in project.plan.regions.values():
        cluster = region.settings.existing.cluster
        if cluster is None:
            continue
        url = f"{_CLUSTERS}/{cluster}"
        yield thing(
            project,
            "cluster",
            cluster,
            url,
            lambda found, region=region: "; ".join(problems(project, region, found)),
        )
        if project.plan.platform.existing.namespace is not None:
            yield _namespace(project, cluster, project.plan.platform.existing.namespace)


def problems(project: Project, region: RegionPlan, found: Json) -> Iterator[str]:
    """Yield the problems of an existing cluster.

    Args:
        project: The project.
        region: The region that names it.
        found: The cluster, as GKE reports it.
    """
    if found.get("status") != "RUNNING":
        yield f"is {found.get('status')}; must be RUNNING"
    yield from _place(project, region, found)
    pool = f"{project.id}.svc.id.goog"
    if _at(found, "workloadIdentityConfig", "workloadPool") != pool:
        yield f"has no Workload Identity; must have the pool {pool}"
    if _at(found, "networkConfig", "gatewayApiConfig", "channel") != "CHANNEL_STANDARD":
        yield "has no Gateway API; must have CHANNEL_STANDARD"
    if _at(found, "addonsConfig", "httpLoadBalancing", "disabled") is True:
        yield "has no HTTP load balancing; gateways require it"
    is_autopilot = _at(found, "autopilot", "enabled") is True
    is_fuse = _at(found, "addonsConfig", "gcsFuseCsiDriverConfig", "enabled") is True
    if not is_fuse and not is_autopilot:  # Autopilot always has it
        yield "has no GCS FUSE driver; must have the add-on GcsFuseCsiDriver"
    yield from _drivers(region, found, is_autopilot=is_autopilot)
    is_ray = _at(found, "addonsConfig", "rayOperatorConfig", "enabled") is True
    if region.has_ray_clusters and not is_ray:
        yield "has no Ray operator; must have the add-on RayOperator"
    if not _at(found, "controlPlaneEndpointsConfig", "dnsEndpointConfig", "endpoint"):
        yield "has no DNS endpoint; must have one"
    if not _at(found, "monitoringConfig", "managedPrometheusConfig", "enabled"):
        yield "has no Managed Prometheus; must have one"
    yield from _of_the_stack(project, region, found, is_autopilot=is_autopilot)


def _drivers(region: RegionPlan, found: Json, *, is_autopilot: bool) -> Iterator[str]:
    """Yield missing drivers of shared folders; Autopilot has that of Filestore."""
    has_share = _at(found, "addonsConfig", "gcpFilestoreCsiDriverConfig", "enabled") is True
    if region.storage.filestore is not None and not has_share and not is_autopilot:
        yield "has no Filestore driver; must have the add-on GcpFilestoreCsiDriver"
    has_lustre = _at(found, "addonsConfig", "lustreCsiDriverConfig", "enabled") is True
    if region.storage.lustre is not None and not has_lustre:
        yield "has no Managed Lustre driver; must have the add-on LustreCsiDriver"


def _place(project: Project, region: RegionPlan, found: Json) -> Iterator[str]:
    """Yield problems with mode, version, zones and network."""
    settings = region.settings
    is_autopilot = _at(found, "autopilot", "enabled") is True
    if is_autopilot != (settings.mode is ClusterMode.AUTOPILOT):
        yield f"is {'autopilot' if is_autopilot else 'standard'}; mode is {settings.mode.value}"
    version = str(found.get("currentMasterVersion", "0"))
    if settings.version and version_key(version) < version_key(settings.version):
        yield f"has GKE {version}; must have {settings.version}"
    yield from _from_zero(region, found)
    outside = [zone for zone in settings.zones if zone not in found.get("locations", [])]
    if outside and not is_autopilot:
        yield f"has no nodes in {', '.join(outside)}; must have nodes in those zones"
    network, subnet = project.plan.network.existing, settings.existing.subnet
    config: dict[str, Any] = found.get("networkConfig", {})
    for kind, wanted in (
        ("network", network),
        ("subnetwork", None if subnet is None else subnet.name),
    ):
        if wanted is not None and not str(config.get(kind, "")).endswith(wanted):
            yield f"is in the {kind} {last(config.get(kind))}; must be in {last(wanted)}"


def _from_zero(region: RegionPlan, found: Json) -> Iterator[str]:
    """Yield versions with which autoscalers leave a target at zero (rule hpa.scale-to-zero)."""
    because, least = scales_from_zero(region), gke_minimum(FROM_ZERO)
    if not because:
        return
    for what, field in (("GKE", "currentMasterVersion"), ("nodes of GKE", "currentNodeVersion")):
        version = found.get(field)  # the oldest of its nodes; a cluster may have none
        if version is not None and version_key(str(version)) < version_key(least):
            yield f"has {what} {version}; must have {least} for {because}"


def _of_the_stack(
    project: Project, region: RegionPlan, found: Json, *, is_autopilot: bool
) -> Iterator[str]:
    """Yield problems with optional features."""
    platform = project.plan.platform
    is_enforcing = _at(found, "networkConfig", "datapathProvider") == "ADVANCED_DATAPATH"
    if platform.network_policies and not is_autopilot and not is_enforcing:
        yield "has no Dataplane V2, so network policies are not enforced; must have it"
    if region.has_rdma and not is_enforcing:
        yield "has no Dataplane V2, which RDMA interfaces of pods require; must have it"
    mode = _at(found, "binaryAuthorization", "evaluationMode")
    if region.cluster.is_attested and mode != "PROJECT_SINGLETON_POLICY_ENFORCE":
        yield "does not enforce Binary Authorization; images.attestation requires it"


def _namespace(project: Project, cluster: str, namespace: str) -> Finding:
    """Return whether a cluster has the namespace, as its API server says."""
    subject, name = "namespace", f"{namespace} in {last(cluster)}"

    def look() -> Finding:
        found = project.cloud.get(f"{_CLUSTERS}/{cluster}")
        try:
            project.cloud.get(f"{dns_endpoint(found)}/api/v1/namespaces/{namespace}")
        except NotFound:
            command = f"kubectl create namespace {namespace}"
            return Finding(subject, name, State.MISSING, "there is none", command)
        return Finding(subject, name, State.MET, "exists; the stack does not change it")

    return judged(project, subject, name, look)


def _at(found: Json, *path: str) -> Any:
    here: Any = found
    for key in path:
        here = here.get(key) if isinstance(here, dict) else None
    return here
