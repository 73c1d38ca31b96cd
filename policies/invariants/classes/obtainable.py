"""Classes do not end in machines that cannot be obtained, which leaves pods pending."""

from collections.abc import Iterator

from gke_inference.catalogue.accelerators import (
    accelerator,
    accelerator_names,
    machine,
    region_of,
    zones_of,
)
from policies.framework.finding import Finding, broken
from policies.framework.reading import at, entries
from policies.framework.rule import Invariant
from policies.objects.compute_classes import ClassRung, rungs
from policies.objects.world import World


def _check(world: World) -> Iterator[Finding]:
    for each in world.of("ComputeClass"):
        listed = rungs(each)
        waits = each.at("spec", "whenUnsatisfiable") == "DoNotScaleUp"
        for rung in listed:
            is_last = waits and rung is listed[-1]
            for reason, value in _never(rung):
                end = ", so the pods of the class wait" if is_last else ""
                yield broken(
                    each,
                    f"{rung.path}.machineType" if value is None else f"{rung.path}.{value[0]}",
                    rung.body.get("machineType") if value is None else value[1],
                    f"{reason}{end}",
                    "use an available machine, provisioning model and zone, or remove the rung",
                )


def _never(rung: ClassRung) -> Iterator[tuple[str, tuple[str, str] | None]]:
    """Yield (reason, field and value if not the machine type) why a rung is unobtainable."""
    name = _chip(rung)
    if name is None:
        return
    ways = machine(name, str(rung.body["machineType"])).sold_as
    if rung.provisioning not in ways:
        yield f"is available as {' and '.join(ways)} only, not as {rung.provisioning}", None
    for field, zone in _zones(rung):
        listed = zones_of(name, region_of(zone), rung.provisioning)
        if listed is not None and zone not in listed:
            yield f"has no {name} with {rung.provisioning}", (field, zone)


def _chip(rung: ClassRung) -> str | None:
    kind, wanted = rung.offer[0], rung.body.get("machineType")
    for name in accelerator_names():
        chip = accelerator(name)
        if chip.gke_type == kind and any(entry.name == wanted for entry in chip.machines):
            return name
    return None


def _zones(rung: ClassRung) -> Iterator[tuple[str, str]]:
    for zone in at(rung.body, "location", "zones") or ():
        yield "location.zones", str(zone)
    for number, entry in enumerate(entries(rung.body, "reservations", "specific")):
        for zone in entry.get("zones") or ():
            yield f"reservations.specific[{number}].zones", str(zone)


RULE = Invariant(
    name="class-obtainable",
    description="Every rung of a class is available with its provisioning model, in its zones.",
    reference="docs.cloud.google.com/compute/docs/gpus (H100); tpu/docs/regions-zones; "
    "gke-labs/kube-agents #907: a last rung that is unavailable waits forever",
    check=_check,
)
