"""Compute classes as ordered rungs, and the nodes that a rung can create for a pod. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from gke_inference.catalogue.quotas import boot_disk
from twin.cluster.autoscaler.pods import Pod, Room, refusal
from twin.cluster.base.fields import part, parts
from twin.cluster.base.quantities import Amounts, amounts
from twin.cluster.devices.devices import claims_interfaces_only
from twin.cluster.nodes import node_objects as nodes
from twin.cluster.nodes.node_objects import NodeShape
from twin.cluster.nodes.pool_spec import PoolSpec
from twin.wire.kube import JsonObject
from twin.world.capacity import reservation_of
from twin.world.machines import (
    Machine,
    Provisioning,
    UnknownMachineError,
    machine,
    machine_with_tpu,
    machines_of_family,
    machines_with_gpu,
    offered_in,
    slice_hosts,
)
from twin.world.node_networks import has_network_profile, network_labels
from twin.world.node_placement import has_compact_placement

ANYWAY = -1
"""Index of the rung for `whenUnsatisfiable: ScaleUpAnyway`."""
_AUTOPILOT_PODS = 32  # rule `node.max-pods`


@dataclass(frozen=True)
class Rung:
    """One rule of a compute class."""

    index: int
    """Position in the class as written, from 0."""
    rule: JsonObject
    provisioning: Provisioning
    zones: tuple[str, ...]
    """In the order in which they are tried; empty for manual pools, which have their own zones."""
    reservations: tuple[tuple[str, str], ...] = ()
    """(reservation, zone) of Specific reservations, as `capacity.yaml` names them."""
    any_reservation: bool = False
    wait_seconds: float = 0.0
    """Time to wait for capacity, in seconds of Google's clock; 0 for no wait."""

    @property
    def pools(self) -> tuple[str, ...]:
        """Names of its manually created pools."""
        return tuple(self.rule.get("nodepools") or ())

    @property
    def title(self) -> str:
        """Human-readable name, such as `tpu-v6e-slice 2x2 reservation`."""
        if self.index == ANYWAY:
            return "any node (ScaleUpAnyway)"
        if self.pools:
            return f"pools {', '.join(self.pools)}"
        rule = self.rule
        what = rule.get("tpu") or part(rule, "gpu")
        kind = what.get("type") or rule.get("machineType") or rule.get("machineFamily")
        words: list[str] = [str(kind or "any")]
        if what.get("topology"):
            words.append(str(what["topology"]))
        elif what.get("count"):
            words.append(f"x{what['count']}")
        return " ".join([*words, self.provisioning])


@dataclass(frozen=True)
class Class:
    """One ComputeClass."""

    name: str
    rungs: tuple[Rung, ...]
    """In the order in which they are tried."""
    auto_creation: bool
    scale_up_anyway: bool
    migrates: bool
    """activeMigration.optimizeRulePriority."""
    consolidation_delay_seconds: float | None
    config: JsonObject
    """nodePoolConfig."""


def parse_class(
    item: JsonObject,
    cluster_zones: tuple[str, ...],
    flex_wait: float,
    price: Callable[[JsonObject], float] | None = None,
) -> Class:
    """Return the rungs of a ComputeClass object in the order in which they are tried.

    Args:
        item: the API object.
        cluster_zones: zones for rules that name none.
        flex_wait: wait for flex-start rules that set none, in seconds.
        price: returns the price of a rule; with equal priorityScore, the cheapest is tried first.
    """
    spec: JsonObject = item["spec"]
    defaults: JsonObject = part(part(spec, "priorityDefaults"), "location")
    rungs = [
        _rung(index, rule, tuple(defaults.get("zones") or cluster_zones), flex_wait)
        for index, rule in enumerate(parts(spec, "priorities"))
    ]
    if any("priorityScore" in rung.rule for rung in rungs):
        cost = price or _no_price
        rungs.sort(key=lambda rung: (-rung.rule.get("priorityScore", 0), cost(rung.rule)))
    delay = part(spec, "autoscalingPolicy").get("consolidationDelayMinutes")
    return Class(
        name=item["metadata"]["name"],
        rungs=tuple(rungs),
        auto_creation=bool(part(spec, "nodePoolAutoCreation").get("enabled")),
        scale_up_anyway=spec["whenUnsatisfiable"] == "ScaleUpAnyway",
        migrates=bool(part(spec, "activeMigration").get("optimizeRulePriority")),
        consolidation_delay_seconds=None if delay is None else delay * 60.0,
        config=part(spec, "nodePoolConfig"),
    )


def _no_price(rule: JsonObject) -> float:
    del rule
    return 0.0


def _rung(index: int, rule: JsonObject, zones: tuple[str, ...], flex_wait: float) -> Rung:
    location: JsonObject = part(rule, "location")
    zones = tuple(location.get("zones") or zones)
    flex = bool(part(rule, "flexStart").get("enabled"))
    wait = float(rule.get("capacityCheckWaitTimeSeconds") or (flex_wait if flex else 0.0))
    reservations: JsonObject = part(rule, "reservations")
    # a rule names the project of a reservation only if it is another one
    specific = tuple(
        (reservation_of(str(entry["name"]), entry.get("project")), zone)
        for entry in parts(reservations, "specific")
        for zone in entry.get("zones") or zones
    )
    provisioning: Provisioning = "on-demand"
    if specific:
        provisioning = "reservation"
        zones = tuple(dict.fromkeys(zone for _, zone in specific))
    elif flex:
        provisioning = "flex-start"
    elif rule.get("spot"):
        provisioning = "spot"
    return Rung(
        index=index,
        rule=rule,
        provisioning=provisioning,
        zones=() if rule.get("nodepools") else zones,
        reservations=specific,
        any_reservation=reservations.get("affinity") == "AnyBestEffort",
        wait_seconds=wait,
    )


@dataclass(frozen=True)
class Offer:
    """Nodes that a rung can create: a shape in a zone."""

    rung: Rung
    shape: NodeShape
    zone: str
    hosts: int
    pool: PoolSpec | None = None


def room_of(shape: NodeShape, zone: str) -> Room:
    """Return an empty node of a shape."""
    found = nodes.labels(shape, zone)
    taints = tuple((t["key"], t["value"], t["effect"]) for t in nodes.taints(shape))
    return Room(found, taints, amounts(nodes.allocatable(shape)), [])


def offers(
    rung: Rung, pod: Pod, klass: Class | None, pools: Mapping[str, PoolSpec]
) -> tuple[list[Offer], list[str]]:
    """Return a rung's offers for a pod, best first, or the reasons why it has none.

    Args:
        rung: rung of the class.
        pod: pending pod.
        klass: compute class; None for nodes without a class (Autopilot).
        pools: manually created pools by name.
    """
    if rung.pools:
        return _pool_offers(rung, pod, pools)
    if pod.devices and (klass is None or not claims_interfaces_only(pod.devices)):
        return [], ["node pool auto-creation supports no device claims"]
    if klass is not None and not klass.auto_creation and rung.index != ANYWAY:
        return [], ["node pool auto-creation is disabled in the compute class"]
    refusals: list[str] = []
    try:
        candidates = _machines(rung.rule, pod.requests)
    except UnknownMachineError as error:
        return [], [str(error)]
    for item in candidates:
        try:
            shape, hosts = _shape(rung, item, klass)
        except UnknownMachineError as error:
            refusals.append(str(error))
            continue
        zones = [zone for zone in rung.zones if offered_in(item, zone, rung.provisioning)]
        if not zones:
            refusals.append(
                f"{item.name} by {rung.provisioning} is not offered in {', '.join(rung.zones)}"
            )
            continue
        found: list[Offer] = []
        for zone in zones:
            why = refusal(pod, room_of(shape, zone))
            if why is None:
                found += _in_zone(rung, shape, zone, hosts)
            else:
                refusals.append(why)
        if found:
            return found, []
    return [], refusals or ["no machine type of the rule can hold the pod"]


def _in_zone(rung: Rung, shape: NodeShape, zone: str, hosts: int) -> list[Offer]:
    if not rung.reservations:
        return [Offer(rung, shape, zone, hosts)]
    return [
        Offer(rung, replace(shape, reservation=name), zone, hosts)
        for name, where in rung.reservations
        if where == zone
    ]


def _pool_offers(
    rung: Rung, pod: Pod, pools: Mapping[str, PoolSpec]
) -> tuple[list[Offer], list[str]]:
    found: list[Offer] = []
    refusals: list[str] = []
    for name in rung.pools:
        spec = pools.get(name)
        if spec is None:
            refusals.append(f"node pool {name} does not exist")
            continue
        if not spec.autoscaled:
            refusals.append(f"node pool {name} has no autoscaling")
            continue
        for zone in spec.zones:
            why = refusal(pod, room_of(spec.shape, zone))
            if why is None:
                found.append(Offer(rung, spec.shape, zone, spec.hosts, spec))
            else:
                refusals.append(why)
    return found, [] if found else refusals


def _machines(rule: JsonObject, requests: Amounts) -> list[Machine]:
    gpu: JsonObject = part(rule, "gpu")
    tpu: JsonObject = part(rule, "tpu")
    if rule.get("machineType"):
        return [machine(rule["machineType"])]
    if tpu:
        found = machine_with_tpu(tpu["type"], int(tpu["count"]), str(tpu["topology"]))
        return [] if found is None else [found]
    if gpu.get("type"):
        return list(machines_with_gpu(gpu["type"], int(gpu.get("count") or 1)))
    sizes = machines_of_family(rule.get("machineFamily") or "e2")
    return [
        item
        for item in sizes
        if item.vcpus >= rule.get("minCores", 0)
        and item.memory_gib >= rule.get("minMemoryGb", 0)
        and item.vcpus > requests.get("cpu", 0.0)
    ]


def _check_disks(item: Machine, disk: str, storage: JsonObject) -> None:
    """Reject unsupported disks (rules cloud.boot-disk and rung.image-disk.tpu)."""
    usual = boot_disk(item.name)[0]
    if item.accelerator and (disk == "pd-standard" or usual not in (disk, "pd-balanced")):
        raise UnknownMachineError(f"{item.name} does not boot from {disk}")
    if item.kind == "tpu" and storage.get("secondaryBootDisks"):
        raise UnknownMachineError(f"{item.name} takes no secondary boot disk")


def _shape(rung: Rung, item: Machine, klass: Class | None) -> tuple[NodeShape, int]:
    rule, config = rung.rule, klass.config if klass else {}
    gpu: JsonObject = part(rule, "gpu")
    tpu: JsonObject = part(rule, "tpu")
    details = item.details
    wrong = UnknownMachineError
    if gpu.get("type") and (details is None or details.gke_type != gpu["type"]):
        raise wrong(f"{item.name} has no {gpu['type']}")
    if gpu.get("count") and item.chips != int(gpu["count"]):
        raise wrong(f"{item.name} has {item.chips} GPUs, the rule says {gpu['count']}")
    if tpu and (details is None or details.gke_type != tpu["type"]):
        raise wrong(f"{item.name} has no {tpu['type']}")
    if tpu and item.chips != int(tpu["count"]):
        raise wrong(f"{item.name} has {item.chips} chips, the rule says {tpu['count']}")
    topology = str(tpu["topology"]) if tpu else None
    hosts = slice_hosts(item, topology)
    storage: JsonObject = part(rule, "storage")
    sharing: JsonObject = part(gpu, "gpuSharing")
    disk = str(storage.get("bootDiskType") or boot_disk(item.name)[0])
    _check_disks(item, disk, storage)
    taints = [*(parts(config, "taints")), *(parts(rule, "taints"))]
    shape = NodeShape(
        machine=item,
        pool="",
        provisioning=rung.provisioning,
        compute_class=klass.name if klass else None,
        topology=topology,
        boot_disk_type=disk,
        boot_disk_gib=int(storage.get("bootDiskSize") or 100),
        image_type=config.get("imageType") or "cos_containerd",
        labels={
            **part(config, "nodeLabels"),
            **part(rule, "nodeLabels"),
            **_networks(item, rule, config),
        },
        taints=tuple((t["key"], t.get("value", ""), t["effect"]) for t in taints),
        max_pods=int(rule.get("maxPodsPerNode") or (110 if klass else _AUTOPILOT_PODS)),
        driver_version=gpu.get("driverVersion") or "default",
        gpu_partition=sharing.get("gpuPartitionSize"),
        gpu_shared_clients=int(sharing.get("maxSharedClientsPerGPU") or 1),
        spot_taint=True,
        auto_created=True,
        # always on for Autopilot nodes
        image_streaming=klass is None or bool(part(config, "imageStreaming").get("enabled")),
        placement=_placement(rung, item),
    )
    return shape.in_pool(pool_name(shape, hosts)), hosts


def _networks(item: Machine, rule: JsonObject, config: JsonObject) -> dict[str, str]:
    """Return the labels of the networks that a rule asks for (rule network.profile)."""
    profile = rule.get("acceleratorNetworkProfile")
    if profile and not has_network_profile(item):
        raise UnknownMachineError(f"{item.name} supports no accelerator network profile")
    has_driver = bool(part(part(config, "dra"), "networking").get("enabled"))
    return network_labels(profile, has_driver=has_driver)


def _placement(rung: Rung, item: Machine) -> str | None:
    """Return the placement policy that a rule names (rule placement.compact)."""
    policy = part(rung.rule, "placement").get("policyName")
    if policy and not has_compact_placement(item):
        raise UnknownMachineError(f"{item.name} supports no compact placement")
    if policy and rung.provisioning == "flex-start" and not has_compact_placement(item, flex=True):
        raise UnknownMachineError(f"{item.name} by flex-start supports no compact placement")
    return None if policy is None else str(policy).rpartition("/")[2]


def pool_name(shape: NodeShape, hosts: int) -> str:
    """Return the name of the pool that GKE would create; each slice gets its own later."""
    suffix = {"on-demand": "", "spot": "-spot", "flex-start": "-flex", "reservation": "-res"}
    name = f"nap-{shape.machine.name}"
    if hosts > 1:
        name += f"-{shape.topology}"
    return name + suffix[shape.provisioning]


def anyway_rung(zones: tuple[str, ...]) -> Rung:
    """Return the rung of `whenUnsatisfiable: ScaleUpAnyway` (rule rung.scale-up-anyway)."""
    return Rung(ANYWAY, {"machineFamily": "e2"}, "on-demand", zones)


def autopilot_rung(pod: Pod, zones: tuple[str, ...]) -> Rung:
    """Return the rung that Autopilot derives from the selectors of a pod without a class."""
    wanted = pod.selector
    rule: JsonObject = {"machineFamily": "e2"}
    provisioning: Provisioning = "on-demand"
    if "cloud.google.com/gke-tpu-accelerator" in wanted:
        rule = {
            "tpu": {
                "type": wanted["cloud.google.com/gke-tpu-accelerator"],
                "count": int(pod.requests.get("google.com/tpu", 0)),
                "topology": wanted.get("cloud.google.com/gke-tpu-topology", ""),
            }
        }
    elif "cloud.google.com/gke-accelerator" in wanted:
        count = wanted.get("cloud.google.com/gke-accelerator-count")
        rule = {
            "gpu": {
                "type": wanted["cloud.google.com/gke-accelerator"],
                "count": int(count or pod.requests.get("nvidia.com/gpu", 1)),
            }
        }
    if wanted.get("cloud.google.com/gke-spot") == "true":
        provisioning = "spot"
    elif wanted.get("cloud.google.com/gke-flex-start") == "true":
        provisioning = "flex-start"
    return Rung(0, rule, provisioning, zones)
