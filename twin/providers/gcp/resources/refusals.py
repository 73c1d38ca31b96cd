"""Google Cloud's errors for well-formed requests, in its wording."""

import ipaddress
from collections.abc import Callable, Iterator
from typing import Any

from gke_inference.catalogue.versions import version_key
from twin.providers.gcp.resources import dataflow, lustre, pubsub
from twin.providers.gcp.resources.buckets import check_bucket
from twin.providers.gcp.resources.load_balancing import (
    check_attachment,
    check_backends,
    check_client_validation,
    check_consumers,
    check_endpoint,
    check_global_rule,
    check_group,
    check_headers,
    check_policy,
    check_probes,
    check_purpose,
    check_reached,
    check_trust_config,
)
from twin.providers.gcp.resources.machine_types import check_boot_disk, is_machine_type
from twin.providers.gcp.resources.memorystore import check_connection_policy, check_new_instance
from twin.providers.gcp.resources.model_armor import check_floor, check_template
from twin.providers.gcp.resources.pools.interfaces import check_interfaces, check_multi_networking
from twin.providers.gcp.resources.pools.networks import check_networks
from twin.providers.gcp.resources.pools.placement import check_placement
from twin.providers.gcp.resources.references import BUCKET, CLUSTER, NETWORK, SUBNETWORK, Link
from twin.providers.gcp.resources.registries import check_repository
from twin.providers.gcp.resources.run_services import check_service
from twin.providers.gcp.resources.security_policies import check_security_policy
from twin.providers.gcp.resources.shared_vpc import (
    check_network,
    missing_network,
    not_of_network,
)
from twin.providers.gcp.resources.special_outputs import channel_of
from twin.providers.gcp.schema import Resource
from twin.wire.property_values import CloudError, Json, as_list, as_object, get_path, last_segment
from twin.world.machines import Provisioning, UnknownMachineError, machine, offered_in
from twin.world.regions import is_region, is_zone, region_of, regions, suggestion
from twin.world.store import Record, Store


def check_create(
    known: Resource, inputs: Json, project: str, store: Store, found: list[Link]
) -> None:
    """Reject a creation that Google would reject.

    Raises:
        CloudError: the first error, in Google's wording.
    """
    _check_location(known, inputs)
    check_content(known, inputs, project, store, found)
    for check in _CREATE.get(known.kind, ()):
        check(inputs, project, store, found)


def check_content(
    known: Resource, inputs: Json, project: str, store: Store, found: list[Link]
) -> None:
    """Reject inputs that Google would reject for a new resource and for a change of one.

    Raises:
        CloudError: the first error, in Google's wording.
    """
    check_references(known, project, found)
    for check in _CONTENT.get(known.kind, ()):
        check(inputs, project, store, found)


def check_references(known: Resource, project: str, found: list[Link]) -> None:
    """Reject references to missing resources (rule cloud.missing).

    Raises:
        CloudError: the first error.
    """
    for link in found:
        if link.target is not None or not link.is_checked:
            continue
        if known.kind == "container/cluster" and link.path == "network":
            raise missing_network(link, project)
        if known.kind == "container/cluster" and link.path == "subnetwork":
            network = next((each.value for each in found if each.path == "network"), "default")
            raise not_of_network(link.value, network)
        raise _missing(link)


def check_delete(known: Resource, record: Record, store: Store) -> None:
    """Reject a deletion that Google would reject.

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
    """Return the error for creating an existing resource."""
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
        return CloudError(404, "The specified bucket does not exist.", "notFound")
    if noun == "Cluster":
        return CloudError(404, f"Not found: {link.value}.", "notFound")
    if noun in {"Image", "Snapshot"}:
        return CloudError(404, f"The resource '{link.value}' was not found", "notFound")
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


def _ranges(inputs: Json) -> Iterator[Any]:
    blocks = as_list(inputs.get("secondaryIpRanges")) or []
    texts = [inputs.get("ipCidrRange"), *((as_object(b) or {}).get("ipCidrRange") for b in blocks)]
    for text in texts:
        if isinstance(text, str) and "/" in text:
            yield ipaddress.ip_network(text, strict=False)


def check_ranges(inputs: Json, _project: str, store: Store, found: list[Link]) -> None:
    """Reject a subnetwork with ranges that overlap each other or another subnetwork's."""
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
    check_version(inputs)
    check_disk(inputs)
    check_multi_networking(inputs)
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


def check_version(inputs: Json) -> None:
    """Reject a version that the channel is not known to have (rule cloud.version)."""
    asked = inputs.get("minMasterVersion")
    if not isinstance(asked, str) or not asked[:1].isdigit():
        return
    newest = channel_of(inputs).newest
    if version_key(asked) > version_key(newest):
        raise CloudError(
            400,
            f'Master version "{asked}" is unsupported: the newest of the release channel is '
            f"{newest}.",
            "badRequest",
        )


def check_disk(inputs: Json) -> None:
    """Reject defaults from which no node with an accelerator could boot (rule cloud.boot-disk)."""
    scaling = as_object(inputs.get("clusterAutoscaling")) or {}
    limits = as_list(scaling.get("resourceLimits")) or []
    kinds = {str((as_object(limit) or {}).get("resourceType")) for limit in limits}
    disk = get_path(scaling, "autoProvisioningDefaults.diskType") or "pd-standard"
    chips = sorted(kinds - {"cpu", "memory"})
    if scaling.get("enabled") is True and chips and disk == "pd-standard":
        raise CloudError(
            400,
            f"[{disk}] features are not compatible for creating instance: machines with "
            f"{', '.join(chips)} do not boot from it.",
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
    uses = {"Pod": "clusterSecondaryRangeName", "Services": "servicesSecondaryRangeName"}
    for use, key in uses.items():
        wanted = get_path(inputs, f"ipAllocationPolicy.{key}")
        if wanted and wanted not in names:
            network = subnetwork.outputs.get("network")
            raise CloudError(
                400,
                f'{use} secondary range "{wanted}" not found in network "{network}", '
                f'subnetwork "{subnetwork.name}".',
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
    name = get_path(inputs, "nodeConfig.machineType")
    if isinstance(name, str) and name and not is_machine_type(name):
        raise CloudError(400, f"Machine type {name} does not exist.", "badRequest")
    if isinstance(name, str) and name:
        check_boot_disk(inputs, name)
        check_networks(inputs, cluster.outputs)
        subnets = {
            link.value: str(link.target.outputs.get("network"))
            for link in found
            if link.target is not None and link.target.type == SUBNETWORK
        }
        check_interfaces(inputs, cluster.outputs, subnets)
        check_placement(inputs, cluster.outputs)
        own = cluster.outputs.get("nodeLocations")
        check_offered(inputs, name, as_list(inputs.get("nodeLocations")) or as_list(own) or [])


def check_offered(inputs: Json, name: str, zones: list[Any]) -> None:
    """Reject a machine that a zone of the pool does not have (rule capacity.zones)."""
    try:
        item = machine(name)
    except UnknownMachineError:
        return  # a type of a naming rule that nobody here knows has no accelerator
    for zone in zones:
        if not offered_in(item, str(zone), bought(inputs)):
            raise CloudError(
                400,
                f"Machine type with name '{name}' does not exist in zone '{zone}', or is not "
                f"sold there by {bought(inputs)}.",
                "badRequest",
            )


def bought(inputs: Json) -> Provisioning:
    """Return the provisioning model of a node pool."""
    if get_path(inputs, "nodeConfig.reservationAffinity.consumeReservationType") == (
        "SPECIFIC_RESERVATION"
    ):
        return "reservation"
    if get_path(inputs, "nodeConfig.flexStart") is True:
        return "flex-start"
    return "spot" if get_path(inputs, "nodeConfig.spot") is True else "on-demand"


def check_empty(record: Record, object_count: int) -> None:
    """Reject the deletion of a bucket with objects, unless `forceDestroy` is set."""
    if object_count and record.outputs.get("forceDestroy") is not True:
        raise CloudError(
            409, f"The bucket you tried to delete ({record.name}) is not empty.", "conflict"
        )


def _check_record(inputs: Json, project: str, store: Store, found: list[Link]) -> None:
    """Reject a record whose name is outside its zone (rule cloud.dns-record)."""
    del project, store
    for zone in (link.target for link in found if link.path == "managedZone"):
        name, of = str(inputs["name"]), "" if zone is None else str(zone.outputs.get("dnsName", ""))
        if zone is not None and name != of and not name.endswith(f".{of}"):
            raise CloudError(
                400, f"Invalid value for 'entity.change.additions[0].name': '{name}'", "invalid"
            )


_Check = Callable[[Json, str, Store, list[Link]], None]
_CREATE: dict[str, tuple[_Check, ...]] = {
    "artifactregistry/repository": (lambda v, _p, _s, _l: check_repository(v),),
    "compute/serviceAttachment": (check_attachment,),
    "container/cluster": (_check_cluster, check_network),
    "container/nodePool": (_check_pool,),
    "dataflow/flexTemplateJob": (
        lambda v, project, store, _l: dataflow.check_new(v, project, store),
    ),
    "lustre/instance": (lambda v, _p, store, _l: lustre.check_new(v, store),),
    "memorystore/instance": (lambda v, _p, store, _l: check_new_instance(v, store),),
    "networkconnectivity/serviceConnectionPolicy": (
        lambda v, _p, store, _l: check_connection_policy(v, store),
    ),
}
_CONTENT: dict[str, tuple[_Check, ...]] = {
    "certificatemanager/trustConfig": (check_trust_config,),
    "cloudrunv2/service": (lambda v, _p, _s, _l: check_service(v),),
    "compute/backendService": (check_backends, check_reached, check_headers),
    "compute/forwardingRule": (check_endpoint,),
    "compute/globalForwardingRule": (check_global_rule,),
    "compute/healthCheck": (check_probes,),
    "compute/regionNetworkEndpointGroup": (check_group,),
    "compute/serviceAttachment": (check_consumers,),
    "compute/regionSecurityPolicy": (lambda v, _p, _s, _l: check_security_policy(v),),
    "compute/securityPolicy": (lambda v, _p, _s, _l: check_security_policy(v),),
    "compute/subnetwork": (check_ranges, check_purpose),
    "compute/targetHttpsProxy": (check_client_validation,),
    "dataflow/flexTemplateJob": (dataflow.check_job,),
    "dns/recordSet": (_check_record, check_policy),
    "modelarmor/floorsetting": (lambda v, _p, _s, _l: check_floor(v),),
    "modelarmor/template": (lambda v, _p, _s, _l: check_template(v),),
    "pubsub/subscription": (pubsub.check_subscription,),
    "pubsub/topic": (pubsub.check_name,),
    "storage/bucket": (lambda v, _p, _s, _l: check_bucket(v),),
}
"""Checks of what a resource contains, which hold for a change of it too."""
