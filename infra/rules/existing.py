"""Rules about existing resources: location, and settings that apply only to created resources."""

from collections.abc import Iterator
from typing import Final

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import join
from infra.stack import ClusterMode, Layer, Platform, Region

_OF_A_CLUSTER: Final = (
    "authorized_networks",
    "auto_provisioning_limits",
    "cluster",
    "hold_upgrades",
    "kms_key",
    "maintenance",
    "release_channel",
    "system_pool",
)
"""Region settings that apply only to clusters that the stack creates."""
_OF_A_BUCKET: Final = ("soft_delete_days", "versioning")
_CONTINENTS: Final = {"asia": "asia", "europe": "europe", "us": "us"}
"""Artifact Registry multi-regions, by the first word of their regions
(docs.cloud.google.com/artifact-registry/docs/repositories/repo-locations)."""
_SYSTEM_NAMESPACES: Final = ("gke-", "gmp-", "kube-")


def check_existing(platform: Platform) -> Iterator[InputError]:
    """Yield the problems of the existing resources that a platform uses."""
    network = platform.existing.network
    if network is not None and platform.mtu is not None:
        yield _left_out("mtu", "existing.network", platform.mtu)
    for name, region in platform.regions.items():
        yield from _check_subnet(name, region, network)
        yield from _check_cluster(platform, name, region)
        yield from _check_repository(platform, name, region)
    yield from _check_namespace(platform)
    yield from _check_buckets(platform)
    yield from _check_repositories(platform)


def _left_out(path: str, because: str, value: object = None) -> InputError:
    rule = f"must not be set when {because} is set"
    return InputError(path, rule) if value is None else InputError(path, rule, value)


def _check_subnet(name: str, region: Region, network: str | None) -> Iterator[InputError]:
    where = ("regions", name)
    subnet = region.existing.subnet
    if network is None:
        if subnet is not None:
            message = "must not be set when existing.network is not set"
            yield InputError(join(*where, "existing", "subnet"), message, subnet.name)
        elif region.ranges is None:
            yield InputError(join(*where, "ranges"), "is required: IP address ranges of the region")
        return
    if region.ranges is not None:
        yield _left_out(join(*where, "ranges"), "existing.network")
    if subnet is None:
        message = "is required when existing.network is set"
        yield InputError(join(*where, "existing", "subnet"), message)
        return
    path = join(*where, "existing", "subnet", "name")
    _, project, _, located, *_ = subnet.name.split("/")
    if located != name:
        yield InputError(path, f"must be a subnet of {name}", subnet.name)
    if project != network.split("/")[1]:
        message = f"must be in the project of existing.network ({network.split('/')[1]})"
        yield InputError(path, message, subnet.name)
    yield from _check_secondary(name, region)


def _check_secondary(name: str, region: Region) -> Iterator[InputError]:
    subnet = region.existing.subnet
    if subnet is None:
        return
    where = ("regions", name, "existing", "subnet")
    for use, value in (("pods", subnet.pods), ("services", subnet.services)):
        if region.existing.cluster is None and value is None:
            message = f"is required: Name of the subnet's secondary range for {use}"
            yield InputError(join(*where, use), message)
        if region.existing.cluster is not None and value is not None:
            because = f"regions.{name}.existing.cluster"
            yield _left_out(join(*where, use), because, value)
    if subnet.pods is not None and subnet.pods == subnet.services:
        message = "must differ from the range of the pods"
        yield InputError(join(*where, "services"), message, subnet.services)


def _check_cluster(platform: Platform, name: str, region: Region) -> Iterator[InputError]:
    cluster = region.existing.cluster
    if cluster is None:
        return
    where = join("regions", name, "existing", "cluster")
    _, project, _, location, *_ = cluster.split("/")
    if project != platform.project:
        message = f"must be in the platform's project ({platform.project})"
        yield InputError(where, message, cluster)
    is_autopilot = region.mode is ClusterMode.AUTOPILOT
    if location != name and (is_autopilot or location.rpartition("-")[0] != name):
        kind = f"in {name}" if is_autopilot else f"in {name} or one of its zones"
        yield InputError(where, f"must be {kind}", cluster)
    if platform.existing.network is None:
        message = "must have its network named in existing.network"
        yield InputError(where, message, cluster)
    if region.version is None:
        message = "is required when existing.cluster is set: the GKE that it has at least"
        yield InputError(join("regions", name, "version"), message)
    for field in _OF_A_CLUSTER:
        if field in region.model_fields_set:
            yield _left_out(join("regions", name, field), where)


def _check_repository(platform: Platform, name: str, region: Region) -> Iterator[InputError]:
    repository = region.existing.repository
    if repository is None:
        return
    where = join("regions", name, "existing", "repository")
    if platform.images is None:
        yield InputError(where, "must have 'images', which says what is taken from it", repository)
    location = repository.split("/")[3]
    nearby = [name, *filter(None, [_CONTINENTS.get(name.partition("-")[0])])]
    if location not in nearby:
        yield InputError(where, f"must be in {' or '.join(nearby)}", repository)


def _check_namespace(platform: Platform) -> Iterator[InputError]:
    namespace = platform.existing.namespace
    if namespace is None or platform.layer is Layer.PLATFORM:
        return  # check_layer refuses it there
    if namespace.startswith(_SYSTEM_NAMESPACES):
        yield InputError("existing.namespace", "must not be a system namespace", namespace)
    without = [name for name, each in platform.regions.items() if each.existing.cluster is None]
    if without:
        message = f"must not be set when the stack creates a cluster, as in {', '.join(without)}"
        yield InputError("existing.namespace", message, namespace)


def _check_buckets(platform: Platform) -> Iterator[InputError]:
    owners: dict[str, str] = {}
    for name, region in platform.regions.items():
        bucket = region.existing.bucket
        if bucket is None:
            continue
        where = join("regions", name, "existing", "bucket")
        if bucket in owners:
            note = f", that of {owners[bucket]}; a model's weights: gs://{bucket}/... are shared"
            yield InputError(where, "must not be the bucket of another region", bucket, note)
        owners.setdefault(bucket, name)
        cached = [zone for zone in platform.storage.cache_zones if zone in region.zones]
        if cached:
            message = f"must have no zone of {name}, whose bucket exists"
            yield InputError("storage.cache_zones", message, cached[0])
    if len(owners) == len(platform.regions):
        for field in _OF_A_BUCKET:
            if field in platform.storage.model_fields_set:
                message = "must not be set when the bucket of every region exists"
                yield InputError(join("storage", field), message)


def _check_repositories(platform: Platform) -> Iterator[InputError]:
    if platform.images is None:
        return
    made = [name for name, each in platform.regions.items() if each.existing.repository is None]
    repository = platform.images.repository
    if made and repository is None:
        message = f"is required: Name of the repository to create in {', '.join(made)}"
        yield InputError("images.repository", message)
    if not made and repository is not None:
        message = "must not be set when the repository of every region exists"
        yield InputError("images.repository", message, repository)
