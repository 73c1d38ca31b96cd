"""A model's parallelism equals the number of devices that its pods request."""

from collections.abc import Iterator

from gke_inference.catalogue.accelerators import accelerator, names_by_gke_type
from policies.framework.finding import Finding, broken, unknown
from policies.framework.rule import Invariant
from policies.objects.accelerators import TPU, resource_of
from policies.objects.compute_classes import rungs_of
from policies.objects.engines import Engine, Split, engines, leads
from policies.objects.world import World


def _check(world: World) -> Iterator[Finding]:
    for server in engines(world):
        resource = resource_of(server.container)
        if resource is not None and leads(server.container.pod):
            yield from _findings(server, resource)


def _findings(server: Engine, resource: str) -> Iterator[Finding]:
    container, pod = server.container, server.container.pod
    field = f"{container.path}.args"
    if server.tensor is None and server.unset_split is not Split.ONE:
        if server.unset_split is Split.FILE:
            yield unknown(
                pod.obj,
                field,
                None,
                f"how {server.kind} splits the model is in a separate file",
                "set the size as an argument",
            )
        return
    copies = server.replicas if server.has_expert_parallelism else server.local_replicas
    written = [server.tensor or "1", server.pipeline or "1", copies or "1"]
    unclear = [value for value in written if not value.isdigit()]
    if unclear:
        yield unknown(
            pod.obj,
            field,
            unclear[0],
            "the objects that were read do not set the variable",
            "also check the ConfigMap that defines it",
        )
        return
    per_chip = _devices_per_chip(server, resource)
    asked = (container.amount(resource) or 0) * per_chip * pod.hosts
    used = int(written[0]) * int(written[1]) * int(written[2])
    if used != asked:
        over = f" over {pod.hosts} hosts" if pod.hosts > 1 else ""
        yield broken(
            pod.obj,
            field,
            f"tensor parallelism {written[0]}, pipeline {written[1]}",
            f"the model is split {used} ways, the pods request {asked} devices{over} ({resource})",
            f"split it {asked} ways, or ask for {used // per_chip or 1} chips",
        )


def _devices_per_chip(server: Engine, resource: str) -> int:
    if resource != TPU:
        return 1
    pod = server.container.pod
    kind = pod.node_label("cloud.google.com/gke-tpu-accelerator")
    kinds = {kind} if kind else {rung.offer[0] for rung in rungs_of(pod)}
    names = [names_by_gke_type()[each] for each in kinds if each in names_by_gke_type()]
    return max((accelerator(name).devices_per_chip for name in names), default=1)


RULE = Invariant(
    name="parallelism-is-chips",
    description="Tensor times pipeline parallelism equals the number of devices that pods request.",
    reference="vLLM and SGLang parallelism; manually maintained in published manifests",
    check=_check,
)
