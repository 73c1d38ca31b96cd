"""The rungs of compute classes."""

from dataclasses import dataclass

from policies.framework.reading import at, entries, section
from policies.objects.accelerators import GPU, TPU
from policies.objects.index import Obj
from policies.objects.pods import PodOf


@dataclass(frozen=True)
class ClassRung:
    """One priority of a ComputeClass."""

    index: int
    body: dict[str, object]

    @property
    def path(self) -> str:
        """Path of the rung."""
        return f"spec.priorities[{self.index}]"

    @property
    def resource(self) -> str | None:
        """Resource on offer: `google.com/tpu`, `nvidia.com/gpu`, or None for machines or pools."""
        return TPU if "tpu" in self.body else GPU if "gpu" in self.body else None

    @property
    def offer(self) -> tuple[str | None, int | None, str | None]:
        """(GKE type, chips per node, topology)."""
        block = section(self.body, "tpu") or section(self.body, "gpu")
        count = str(block.get("count"))
        chips = int(count) if count.isdigit() else None
        kind, topology = block.get("type"), block.get("topology")
        return (
            (None if kind is None else str(kind)),
            chips,
            (None if topology is None else str(topology)),
        )

    @property
    def provisioning(self) -> str:
        """Provisioning model of its VMs, in catalog terms."""
        if at(self.body, "reservations", "affinity") == "Specific":
            return "reservation"
        if self.is_flex:
            return "flex-start"
        return "spot" if self.is_spot else "on-demand"

    @property
    def is_spot(self) -> bool:
        """Whether Google may preempt its nodes."""
        return self.body.get("spot") is True

    @property
    def is_flex(self) -> bool:
        """Whether its nodes use flex-start."""
        return at(self.body, "flexStart", "enabled") is True


def rungs_of(pod: PodOf) -> list[ClassRung]:
    """Return the rungs of the class that a pod selects, or none if the class was not read."""
    name = pod.compute_class
    chosen = pod.world.find("ComputeClass", "", name) if name else None
    return [] if chosen is None else rungs(chosen)


def rungs(compute_class: Obj) -> list[ClassRung]:
    """Return the rungs of a ComputeClass, in the order tried."""
    return [
        ClassRung(index, dict(body))
        for index, body in enumerate(entries(compute_class.body, "spec", "priorities"))
    ]
