"""A capacity as a GKE compute class: an ordered list of rungs for one kind of hardware."""

from typing import Annotated, NotRequired, TypedDict

import pulumi
from pydantic import Field

from gke_inference.base.checked import checked, keep
from gke_inference.base.inputs import rung_of, under
from gke_inference.base.manifests import Manifest, register
from gke_inference.catalogue.hardware import CPU
from gke_inference.catalogue.rung_settings import RungArgs
from gke_inference.catalogue.rungs import Rung

from .compute_class_rules import class_object, image_cache_disk, is_made_by_hand, is_spot_only
from .node_settings import NodeSettings, check_nodes
from .settings import MAX_RUNGS, PodsPerNode, Unsatisfiable

_UNSATISFIABLE = {
    Unsatisfiable.DO_NOT_SCALE_UP: "DoNotScaleUp",
    Unsatisfiable.SCALE_UP_ANYWAY: "ScaleUpAnyway",
}
_RESERVED_PREFIXES = ("autopilot", "gke")
_MAX_NAME = 63


class ComputeClassArgs(TypedDict):
    """Inputs of `ComputeClass`."""

    class_name: str
    """Name of the class, cluster-wide. Pods select it by `cloud.google.com/compute-class`."""
    node_service_account: pulumi.Input[str]
    """Email of the service account for nodes that GKE creates for the class."""
    rungs: Annotated[list[RungArgs], Field(min_length=1, max_length=MAX_RUNGS)]
    """Rungs in the order in which they are tried, up to 10, all TPU, all GPU or all without an
    accelerator. Only rungs with manually created pools (`node_pools`) may mix TPU and GPU, for the
    forms `dual-container` and `dra` of a model server."""
    boot_disk_key: NotRequired[pulumi.Input[str]]
    """Cloud KMS key for the boot disks of nodes that GKE creates. Default: Google-managed keys."""
    image_cache: NotRequired[pulumi.Input[str]]
    """Disk image with the engine's container image (`projects/P/global/images/NAME`), for GPU
    nodes."""
    max_pods_per_node: NotRequired[PodsPerNode]
    """Maximum pods per node. Default: 32, since an accelerator node runs one server and
    pods use IP addresses."""
    move_back: NotRequired[bool]
    """Whether pods move back to an earlier rung when it has capacity again. A move is a restart,
    and multi-host slices cannot be moved. Default: false."""
    nodes: NotRequired[NodeSettings]
    """Kubelet, kernel and image of nodes that GKE creates for the class."""
    placement_policy: NotRequired[pulumi.Input[str]]
    """Placement policy for nodes of rungs with `placement` compact: `CompactPlacement.policy_name`.
    Required for such rungs without `node_pools`."""
    spot_only_reason: NotRequired[Annotated[str, Field(min_length=1)]]
    """Why all rungs are Spot, for the annotation without which `gke-inference check` reports
    servers that have no other capacity. Must be unset if a rung is not Spot."""
    when_unsatisfiable: NotRequired[Unsatisfiable]
    """Behavior when no rung has capacity: `do-not-scale-up` (default) leaves pods Pending;
    `scale-up-anyway` lets Standard clusters add nodes without accelerators."""


class ComputeClass(pulumi.ComponentResource):
    """A custom compute class with node pool auto-creation.

    GKE tries the rungs in order, and does not retry one that is out of stock for about five
    minutes, in all of its zones. GKE does not guarantee that it tries a later rung immediately.
    """

    class_name: pulumi.Output[str]
    """Name of the class."""

    def __init__(
        self, name: str, args: ComputeClassArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:ComputeClass", name, {}, opts)
        args = checked(ComputeClassArgs, args)
        rungs = _checked_rungs(args)
        obj = class_object(
            args["class_name"],
            rungs,
            boot_disk_key=args.get("boot_disk_key"),
            image_disk=_image_disk(args.get("image_cache")),
            is_moving_back=bool(args.get("move_back", False)),
            max_pods_per_node=args.get("max_pods_per_node", 32),
            node_service_account=args["node_service_account"],
            nodes=args.get("nodes"),
            placement_policy=args.get("placement_policy"),
            spot_only_reason=args.get("spot_only_reason"),
            when_unsatisfiable=_UNSATISFIABLE[
                args.get("when_unsatisfiable", Unsatisfiable.DO_NOT_SCALE_UP)
            ],
        )
        register(name, obj, under(self))
        self.class_name = pulumi.Output.from_input(args["class_name"])
        self.register_outputs({"className": self.class_name})


def _image_disk(image: pulumi.Input[str] | None) -> Manifest | pulumi.Output[Manifest] | None:
    if image is None:
        return None
    if isinstance(image, str):
        try:
            return image_cache_disk(image)
        except ValueError as error:
            raise pulumi.InputPropertyError("imageCache", str(error)) from error
    return pulumi.Output.from_input(image).apply(image_cache_disk)


def _checked_rungs(args: ComputeClassArgs) -> list[Rung]:
    _check_name(args["class_name"])
    rungs = [rung_of(rung, f"rungs[{at}]") for at, rung in enumerate(args["rungs"])]
    for at, rung in enumerate(rungs):
        if rung in rungs[:at]:
            raise pulumi.InputPropertyError(
                f"rungs[{at}]", f"must not repeat an earlier rung, got {rung.label}"
            )
    _check_kinds(rungs)
    _check_zone(rungs)
    _check_placement(args, rungs)
    _check_nodes(args, rungs)
    reason = args.get("spot_only_reason")
    if reason is not None and not is_spot_only(rungs):
        rule = f"must not be set: a rung is not Spot, got {reason!r}"
        raise pulumi.InputPropertyError("spotOnlyReason", rule)
    if args.get("move_back", False) and any(rung.is_slice for rung in rungs):
        raise pulumi.InputPropertyError(
            "moveBack", "must be false when a rung is a multi-host slice, got true"
        )
    return rungs


def _check_zone(rungs: list[Rung]) -> None:
    """RDMA networks are zonal, so all nodes of a class with RDMA must be in one zone."""
    rdma = [rung for rung in rungs if rung.network == "rdma"]
    zones = {zone for rung in rdma for zone in (*rung.zones, *rung.reservation_zones)}
    is_named = all(rung.zones or rung.reservation_zones for rung in rdma)
    if rdma and (len(zones) != 1 or not is_named):
        listed = ", ".join(sorted(zones)) if is_named else "a rung without zones"
        raise pulumi.InputPropertyError(
            "rungs", f"must name one zone for all rungs with RDMA, got {listed}"
        )


def _check_placement(args: ComputeClassArgs, rungs: list[Rung]) -> None:
    """Compact nodes are in one zone, and a class needs a policy of its user's for them."""
    for at, rung in enumerate(rungs):
        if rung.placement != "compact" or rung.node_pools:
            continue
        if args.get("placement_policy") is None:
            rule = f"must be set for the compact nodes of rungs[{at}], got none"
            raise pulumi.InputPropertyError("placementPolicy", rule)
        if len(rung.zones) != 1:
            rule = f"must be one zone for compact nodes, got {len(rung.zones)}"
            raise pulumi.InputPropertyError(f"rungs[{at}].zones", rule)


def _check_nodes(args: ComputeClassArgs, rungs: list[Rung]) -> None:
    nodes = args.get("nodes")
    if nodes is None:
        return
    if is_made_by_hand(rungs):
        rule = "must not be set: the node pools of the rungs have the settings"
        raise pulumi.InputPropertyError("nodes", rule)
    has_cache = args.get("image_cache") is not None
    keep(check_nodes("nodes", nodes, rungs, has_pools=False, has_image_cache=has_cache))


def _check_name(name: str) -> None:
    if name.startswith(_RESERVED_PREFIXES):
        raise pulumi.InputPropertyError(
            "className", f"must not begin with 'gke' or 'autopilot', got {name!r}"
        )
    if len(name) > _MAX_NAME:
        raise pulumi.InputPropertyError(
            "className", f"must be at most {_MAX_NAME} characters, got {len(name)}: {name!r}"
        )


def _check_kinds(rungs: list[Rung]) -> None:
    kinds = {rung.kind for rung in rungs}
    if len(kinds) > 1 and (CPU in kinds or not is_made_by_hand(rungs)):
        rule = (
            "must all be TPU or all GPU unless every rung has 'nodePools', because one pod cannot"
        )
        if CPU in kinds:
            rule = "must all have an accelerator or none, because one pod cannot"
        labels = ", ".join(rung.label for rung in rungs)
        raise pulumi.InputPropertyError("rungs", f"{rule} ask for both, got {labels}")
