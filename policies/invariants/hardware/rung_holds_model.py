"""Every rung that a model may run on has enough memory for its weights."""

import json
from collections.abc import Iterator
from typing import cast

from gke_inference.catalogue.accelerators import accelerator, names_by_gke_type
from gke_inference.sizing.memory import UTILISATION, Loaded, expert_part, room
from policies.framework.finding import Finding, broken, unknown
from policies.framework.rule import Invariant
from policies.objects.accelerators import resource_of
from policies.objects.compute_classes import rungs_of
from policies.objects.engines import Engine, engines, leads
from policies.objects.models import loaded_of
from policies.objects.world import World

_TYPES = ("cloud.google.com/gke-tpu-accelerator", "cloud.google.com/gke-accelerator")


def _check(world: World) -> Iterator[Finding]:
    for server in engines(world):
        pod = server.container.pod
        resource = resource_of(server.container)
        if resource is None or not leads(pod):
            continue
        model = loaded_of(server)
        if model is None:
            yield unknown(
                pod.obj,
                f"{server.container.path}.args",
                server.model,
                "the model's name does not contain its size",
                "use its published name, with its size",
            )
            continue
        yield from _findings(server, resource, model)


def _findings(server: Engine, resource: str, model: Loaded) -> Iterator[Finding]:
    container, pod = server.container, server.container.pod
    said = next((label for key in _TYPES if (label := pod.node_label(key))), None)
    offers = (
        {said} if said else {rung.offer[0] for rung in rungs_of(pod) if rung.resource == resource}
    )
    if not offers:
        yield unknown(
            pod.obj,
            pod.at("spec.nodeSelector"),
            pod.compute_class,
            "which accelerator the pods get was not read",
            "also check the ComputeClass",
        )
    chips = (container.amount(resource) or 0) * pod.hosts
    share = _number(container.line.flag("--gpu-memory-utilization", "--mem-fraction-static"))
    for offer in sorted(str(each) for each in offers):
        name = names_by_gke_type().get(offer)
        if name is None:
            yield unknown(
                pod.obj,
                pod.at("spec.nodeSelector"),
                offer,
                "the accelerator is not in the catalog",
                "add it to components/gke_inference/catalogue/data/accelerators.yaml",
            )
            continue
        devices = chips * accelerator(name).devices_per_chip
        tensor, stages = _split(server, devices)
        if server.has_expert_parallelism:
            model = expert_part(model, devices, tensor, _redundant(server))
        found = room(model, name, tensor=tensor, stages=stages, share=share or UTILISATION)
        if found.problem is not None:
            yield broken(
                pod.obj,
                f"{container.path}.resources",
                f"{chips} x {name}",
                f"{server.model} {found.problem}",
                "use more or larger chips, fewer bits per weight or a shorter context",
            )


def _split(server: Engine, devices: int) -> tuple[int, int]:
    """Return devices per stage and number of stages; all devices if no flag sets them."""
    stages = _whole(server.pipeline) or 1
    return _whole(server.tensor) or max(1, devices // stages), stages


def _redundant(server: Engine) -> int:
    """Return the additional copies of experts, which take memory like the others."""
    text = server.container.line.flag("--eplb-config")
    try:
        found: object = json.loads(text or "{}")
    except ValueError:
        return 0
    count = cast("dict[str, object]", found).get("num_redundant_experts", 0)
    return count if isinstance(count, int) else 0


def _whole(text: str | None) -> int:
    return int(text) if text is not None and text.isdigit() else 0


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None


RULE = Invariant(
    name="rung-holds-model",
    description="Weights and engine overhead fit into the device memory of every rung.",
    reference="this project's fit arithmetic: gke_inference.sizing.memory",
    check=_check,
)
