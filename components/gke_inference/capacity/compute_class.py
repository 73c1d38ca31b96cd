"""A capacity as GKE knows it: an ordered list of ways to get one kind of accelerator node."""

from typing import NotRequired, TypedDict

import pulumi

from gke_inference.base.inputs import one_of, under, whole
from gke_inference.base.manifests import Manifest, register
from gke_inference.catalogue.rungs import Rung, RungArgs, checked_input

from .compute_class_rules import (
    MAX_RUNGS,
    class_object,
    image_cache_disk,
    is_made_by_hand,
)

_UNSATISFIABLE = {"do-not-scale-up": "DoNotScaleUp", "scale-up-anyway": "ScaleUpAnyway"}
_RESERVED_PREFIXES = ("autopilot", "gke")
_MAX_NAME = 63


class ComputeClassArgs(TypedDict):
    """Inputs of `ComputeClass`."""

    class_name: str
    """Name of the class, cluster-wide; pods select it by `cloud.google.com/compute-class`."""
    node_service_account: pulumi.Input[str]
    """Email of the service account of nodes GKE creates for the class."""
    rungs: list[RungArgs]
    """Ways to get a node, tried in this order; 1 to 10, all TPU or all GPU. Only rungs of pools
    made by hand (`node_pools`) may mix the two: the dual-container form of a model server."""
    boot_disk_key: NotRequired[pulumi.Input[str]]
    """Cloud KMS key of the boot disks of nodes GKE creates. Default: Google's own keys."""
    image_cache: NotRequired[pulumi.Input[str]]
    """Disk image with the engine's container image (`projects/P/global/images/NAME`), for nodes
    with GPUs."""
    max_pods_per_node: NotRequired[int]
    """8 to 256. Default 32: an accelerator node runs one server, and a pod costs addresses."""
    move_back: NotRequired[bool]
    """Whether pods move to a higher rung when it has capacity again. Default false: a move is a
    restart, and multi-host slices cannot be moved."""
    when_unsatisfiable: NotRequired[str]
    """What happens when no rung has capacity: `do-not-scale-up` (default) leaves pods Pending;
    `scale-up-anyway` lets Standard clusters add nodes without accelerators."""


class ComputeClass(pulumi.ComponentResource):
    """A custom compute class with GKE's node pool auto-creation.

    What GKE does: it tries the rungs from the top; one that is out of stock is left alone for about
    five minutes in all its zones. What it does not promise: that a lower rung is tried at once.
    """

    class_name: pulumi.Output[str]
    """Name of the class."""

    def __init__(
        self, name: str, args: ComputeClassArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:ComputeClass", name, {}, opts)
        rungs = _checked(args)
        obj = class_object(
            args["class_name"],
            rungs,
            boot_disk_key=args.get("boot_disk_key"),
            image_disk=_image_disk(args.get("image_cache")),
            is_moving_back=bool(args.get("move_back", False)),
            max_pods_per_node=_max_pods(args),
            node_service_account=args["node_service_account"],
            when_unsatisfiable=_UNSATISFIABLE[args.get("when_unsatisfiable", "do-not-scale-up")],
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


def _checked(args: ComputeClassArgs) -> list[Rung]:
    _check_name(args["class_name"])
    _max_pods(args)
    one_of(args, "when_unsatisfiable", tuple(_UNSATISFIABLE), "do-not-scale-up")
    if not 1 <= len(args["rungs"]) <= MAX_RUNGS:
        raise pulumi.InputPropertyError(
            "rungs", f"must be 1 to {MAX_RUNGS} rungs, got {len(args['rungs'])}"
        )
    rungs = [checked_input(rung, f"rungs[{at}]") for at, rung in enumerate(args["rungs"])]
    for at, rung in enumerate(rungs):
        if rung in rungs[:at]:
            raise pulumi.InputPropertyError(
                f"rungs[{at}]", f"must not repeat an earlier rung, got {rung.label}"
            )
    _check_kinds(rungs)
    if args.get("move_back", False) and any(rung.is_slice for rung in rungs):
        raise pulumi.InputPropertyError(
            "moveBack", "must be false when a rung is a multi-host slice, got true"
        )
    return rungs


def _max_pods(args: ComputeClassArgs) -> int:
    return whole(args, "max_pods_per_node", 32, least=8, most=256)


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
    if len({rung.kind for rung in rungs}) > 1 and not is_made_by_hand(rungs):
        raise pulumi.InputPropertyError(
            "rungs",
            "must all be TPU or all GPU unless every rung has 'nodePools', because one pod cannot"
            f" ask for both, got {', '.join(rung.label for rung in rungs)}",
        )
