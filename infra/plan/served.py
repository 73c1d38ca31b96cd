"""A model as one region serves it: every fact about it that more than one reader needs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gke_inference.catalogue.accelerators import zones_of
from gke_inference.catalogue.rungs import Rung
from infra.plan.capacity import RegionCapacity
from infra.stack import Form, Model


@dataclass(frozen=True)
class CanaryVersion:
    """What makes a served model the second version of another one."""

    of: str
    """Name of the model, which clients ask for."""
    name: str
    """Name of the version."""
    percent: int
    """Share of the model's requests."""


@dataclass(frozen=True)
class ServedModel:
    """A model, or one role of it, in one region.

    A canary is a model of its own: identity, servers, autoscalers, scraping and alerts are the same
    for both versions, and only the gateway knows that the two answer to one name.
    """

    name: str
    """In the stack; `NAME-VERSION` of a canary."""
    region: str
    settings: Model
    """What the stack says of it; of a canary, with the weights and replicas of the version."""
    version: CanaryVersion | None
    """None: it is no canary."""
    role: str
    """`serve`, or `decode` and `prefill` where prefill and decode are disaggregated."""
    capacity: RegionCapacity
    """What its replicas run on."""
    form: Form
    """Single where the region has rungs of one kind only, whatever the stack says."""
    minimum: int
    """Replicas that always run."""
    maximum: int
    """Replicas that the autoscaler may reach."""
    standby: int
    """Warm GPU replicas of a paired model; 0 in every other form."""
    namespace: str
    """Namespace of its pods."""
    object_name: str
    """Its name in Kubernetes, also of the service account that its pods run as."""
    deployments: Mapping[str, str]
    """Names of its Deployments by kind of hardware, or one under `any`."""
    weights: str
    """`gs://BUCKET/PATH` as the region reads them."""
    disk_zones: tuple[str, ...] | None
    """Zones of the region with a disk of its weights; None: it has no disk."""
    is_first: bool
    """Whether the region is the first one that the model runs in."""
    prefill: "ServedModel | None" = None
    """The replicas that compute its prompts, where these are others."""

    @property
    def rungs(self) -> Mapping[int, Rung]:
        """The checked rungs it may run on, by their place in the stack."""
        return self.capacity.rungs

    @property
    def served_name(self) -> str:
        """The name that clients ask for: a version answers to its model's."""
        return self.name if self.version is None else self.version.of

    @property
    def roles(self) -> Iterator["ServedModel"]:
        """Itself, and the replicas that compute its prompts where there are some."""
        yield self
        if self.prefill is not None:
            yield self.prefill

    def zones(self, at: int) -> tuple[str, ...] | None:
        """Return the zones where it can stand on a rung; None where nobody lists the rung's.

        A disk with its weights keeps a model to the zones that have one.

        Args:
            at: Place of the rung in the stack.
        """
        listed = self.capacity.listed_zones[at]
        rung = self.rungs[at]
        if not listed and not zones_of(rung.accelerator, self.region, rung.provisioning):
            return None
        return tuple(zone for zone in listed if self.disk_zones is None or zone in self.disk_zones)
