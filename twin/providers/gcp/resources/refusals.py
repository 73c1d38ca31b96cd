"""What Google Cloud refuses although the request is well formed, in its words."""

import ipaddress
import re
from collections.abc import Callable, Iterator
from typing import Any

from twin.providers.gcp.resources.machine_types import is_machine_type
from twin.providers.gcp.resources.references import BUCKET, CLUSTER, NETWORK, SUBNETWORK, Link
from twin.providers.gcp.schema import Resource
from twin.wire.property_values import CloudError, Json, as_list, as_object, get_path, last_segment
from twin.world.regions import is_region, is_zone, region_of, regions, suggestion
from twin.world.store import Record, Store

_WORKLOAD_POOL = re.compile(r"(?P<pool>[\w:.-]+\.svc\.id\.goog)(?=[/\[])")
_OWN_ACCOUNT = re.compile(
    r"^serviceAccount:(?P<email>[^@\[]+@(?P<project>[^.\[]+)\.iam\.gserviceaccount\.com)$"
)


def check_create(
    known: Resource, inputs: Json, project: str, store: Store, found: list[Link]
) -> None:
    """Refuse what Google would refuse to create.

    Raises:
        CloudError: the first problem, as Google says it.
    """
    _check_location(known, inputs)
    check_references(found)
    for check in _CREATE.get(known.kind, ()):
        check(inputs, project, store, found)
    if known.kind.lower().endswith("iammember"):
        _check_member(inputs, project, store)


def check_references(found: list[Link]) -> None:
    """Refuse references to what does not exist.

    Raises:
        CloudError: the first one.
    """
    for link in found:
        if link.target is None and link.is_checked:
            raise _missing(link)


def check_delete(known: Resource, record: Record, store: Store) -> None:
    """Refuse what Google would refuse to delete.

    Raises:
        CloudError: deletion protection, deletion policy, or the first resource that uses this one.
    """
    policy = record.outputs.get("deletionPolicy")
    if policy == "PREVENT":
        raise CloudError(
            400,
            f"{record.id}: deletionPolicy is PREVENT; set it to DELETE first",
            "failedPrecondition",
        )
    if known.kind == "container/cluster" and record.outputs.get("deletionProtection") is not False:
        raise CloudError(
            400,
            f"cannot destroy cluster {record.name} because deletionProtection is true; "
            "set it to false and update first",
            "failedPrecondition",
        )
    users = [use for use in store.users(record.type, record.id) if use.blocks]
    if users:
        user = users[0]
        cls = record.type.rpartition(":")[2]
        noun = cls[0].lower() + cls[1:]
        raise CloudError(
            400,
            f"The {noun} resource '{record.id}' is already being used by '{user.id}'",
            "resourceInUseByAnotherResource",
        )


def already_exists(record: Record) -> CloudError:
    """Return the refusal to create what exists."""
    if record.type == BUCKET:
        return CloudError(
            409,
            "Your previous request to create the named bucket succeeded and you already own it.",
            "conflict",
        )
    if record.type == CLUSTER:
        return CloudError(409, f"Already exists: {record.id}.", "alreadyExists")
    return CloudError(409, f"The resource '{record.id}' already exists", "alreadyExists")


def _missing(link: Link) -> CloudError:
    noun = link.reference.targets[0].rpartition(":")[2]
    if noun == "Account":
        return CloudError(
            400, f"Service account {last_segment(link.value)} does not exist.", "badRequest"
        )
    if noun == "Bucket":
        return CloudError(404, f"The specified bucket {link.value} does not exist.", "notFound")
    if noun == "Cluster":
        return CloudError(404, f"Not found: {link.value}.", "notFound")
    return CloudError(404, f"The {noun} '{link.value}' ({link.path}) was not found", "notFound")


def _check_location(known: Resource, inputs: Json) -> None:
    for key, test, noun in (("region", is_region, "region"), ("zone", is_zone, "zone")):
        value = inputs.get(key)
        if isinstance(value, str) and key in known.fields and value:
            name = last_segment(value)
            if not test(name):
                raise CloudError(
                    400,
                    f"Invalid value for field '{key}': '{name}'. Unknown {noun}{suggestion(name)}.",
                    "invalid",
                )
    if known.kind in ("container/cluster", "container/nodePool"):
        location = inputs.get("location")
        if isinstance(location, str) and not is_region(location) and not is_zone(location):
            raise CloudError(
                400, f'Location "{location}" does not exist{suggestion(location)}.', "badRequest"
            )


def _check_member(inputs: Json, project: str, store: Store) -> None:
    member = str(inputs.get("member", ""))
    pool = _WORKLOAD_POOL.search(member)
    if pool is not None:
        name = pool["pool"].rpartition("/")[2].removeprefix("serviceAccount:")
        if name == f"{project}.svc.id.goog" and not store.fact(f"workload-pool {name}"):
            raise CloudError(
                400,
                f"Identity Pool does not exist ({name}). Please check that you specified a valid "
                "resource name as returned in the `name` attribute in the configuration API; the "
                "pool comes with the project's first cluster that has Workload Identity",
                "badRequest",
            )
    account = _OWN_ACCOUNT.match(member)
    if account is not None and account["project"] == project:
        token = "gcp:serviceaccount/account:Account"  # noqa: S105 - a resource type
        if not any(item.outputs.get("email") == account["email"] for item in store.find(token)):
            raise CloudError(
                400, f"Service account {account['email']} does not exist.", "badRequest"
            )


def _ranges(inputs: Json) -> Iterator[Any]:
    blocks = as_list(inputs.get("secondaryIpRanges")) or []
    texts = [inputs.get("ipCidrRange"), *((as_object(b) or {}).get("ipCidrRange") for b in blocks)]
    for text in texts:
        if isinstance(text, str) and "/" in text:
            yield ipaddress.ip_network(text, strict=False)


def check_ranges(inputs: Json, _project: str, store: Store, found: list[Link]) -> None:
    """Refuse a subnetwork whose ranges overlap each other or those of another in its network."""
    network = next((link.target for link in found if link.path == "network"), None)
    mine = list(_ranges(inputs))
    for number, one in enumerate(mine):
        for other in mine[number + 1 :]:
            if one.version == other.version and one.overlaps(other):
                raise _overlap(one, f"{other} of the same subnetwork")
    for record in store.find(SUBNETWORK):
        same = network is not None and any(
            use.id == record.id for use in store.users(NETWORK, network.id)
        )
        if not same or (record.name == inputs.get("name") and _same_region(record, inputs)):
            continue
        for one in mine:
            for other in _ranges(record.inputs):
                if one.version == other.version and one.overlaps(other):
                    raise _overlap(one, f"{other} of subnetwork {record.id}")


def _same_region(record: Record, inputs: Json) -> bool:
    return record.outputs.get("region") == inputs.get("region")


def _overlap(one: Any, other: str) -> CloudError:
    return CloudError(
        400,
        f"Invalid IPCidrRange: {one} conflicts with existing range {other}",
        "invalidArgument",
    )


def _check_cluster(inputs: Json, project: str, store: Store, found: list[Link]) -> None:
    location = str(inputs["location"])
    _check_zones(inputs, location)
    autopilot = inputs.get("enableAutopilot") is True
    if autopilot and not is_region(location):
        raise CloudError(400, "Autopilot clusters must be regional clusters.", "badRequest")
    if inputs.get("initialNodeCount") == 0 and not autopilot:
        raise CloudError(400, "Cluster.initial_node_count must be greater than zero.", "badRequest")
    subnetwork = next((link.target for link in found if link.path == "subnetwork"), None)
    if subnetwork is not None:
        _check_cluster_subnetwork(inputs, location, subnetwork)
    pool = get_path(inputs, "workloadIdentityConfig.workloadPool")
    if isinstance(pool, str) and pool and pool != f"{project}.svc.id.goog":
        raise CloudError(
            400,
            f"Invalid workload pool {pool}: must be {project}.svc.id.goog.",
            "badRequest",
        )


def _check_cluster_subnetwork(inputs: Json, location: str, subnetwork: Record) -> None:
    region = last_segment(str(subnetwork.outputs.get("region", "")))
    if region and region != region_of(location):
        raise CloudError(
            400,
            f"Subnetwork {subnetwork.name} is in region {region}, not in {region_of(location)}.",
            "badRequest",
        )
    blocks = as_list(subnetwork.inputs.get("secondaryIpRanges")) or []
    names = {(as_object(block) or {}).get("rangeName") for block in blocks}
    for key in ("clusterSecondaryRangeName", "servicesSecondaryRangeName"):
        wanted = get_path(inputs, f"ipAllocationPolicy.{key}")
        if wanted and wanted not in names:
            raise CloudError(
                400,
                f"Pod or service secondary range {wanted} does not exist in subnetwork "
                f"{subnetwork.name}.",
                "badRequest",
            )


def _check_zones(inputs: Json, location: str) -> None:
    region = region_of(location)
    for zone in as_list(inputs.get("nodeLocations")) or []:
        if zone not in regions().get(region, ()):
            raise CloudError(
                400,
                f'Zone "{zone}" is not a zone of region "{region}"{suggestion(str(zone))}.',
                "badRequest",
            )


def _check_pool(inputs: Json, _project: str, _store: Store, found: list[Link]) -> None:
    cluster = next((link.target for link in found if link.path == "cluster"), None)
    if cluster is None:
        return
    if cluster.outputs.get("enableAutopilot") is True:
        raise CloudError(
            400, "Autopilot clusters do not support node pools of their users.", "badRequest"
        )
    _check_zones(inputs, str(cluster.outputs["location"]))
    machine = get_path(inputs, "nodeConfig.machineType")
    if isinstance(machine, str) and machine and not is_machine_type(machine):
        raise CloudError(400, f"Machine type {machine} does not exist.", "badRequest")


def check_empty(record: Record, object_count: int) -> None:
    """Refuse to delete a bucket that has objects, unless `forceDestroy` says so."""
    if object_count and record.outputs.get("forceDestroy") is not True:
        raise CloudError(
            409, f"The bucket you tried to delete ({record.name}) is not empty.", "conflict"
        )


_CREATE: dict[str, tuple[Callable[[Json, str, Store, list[Link]], None], ...]] = {
    "compute/subnetwork": (check_ranges,),
    "container/cluster": (_check_cluster,),
    "container/nodePool": (_check_pool,),
}
