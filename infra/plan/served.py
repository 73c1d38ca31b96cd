"""A model as served in one region: all facts that several readers need."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gke_inference.catalogue.rungs import Rung
from gke_inference.intent.replicas import ReplicaRange
from gke_inference.intent.schedule import ReplicaSchedule
from gke_inference.sizing.pickers import USUAL_PICKER, PeakLoad
from infra.plan.canary import CanaryVersion
from infra.plan.capacity import RegionCapacity
from infra.plan.names import Names
from infra.plan.project import ProjectPlan
from infra.plan.storage import RegionStorage
from infra.stack import Form, FromZero, Model, Region, Spanning


@dataclass(frozen=True)
class ServingSite:
    """What all models of a region have in common."""

    region: str
    settings: Region
    """Settings of the region."""
    names: Names
    project: ProjectPlan
    storage: RegionStorage
    is_autopilot: bool
    """Whether GKE manages the nodes."""
    grants_weights: bool
    """Whether the stack grants its models their weights, as a platform does for teams."""
    grants_caches: bool
    """Whether the stack grants its models the bucket for compiled programs."""
    gated_buckets: tuple[str, ...]
    """Buckets outside the stack that the gate of weights is granted in the region."""
    reports_usage: bool
    """Whether streams must end with their usage, which a client gate counts."""
    scrape_seconds: int
    """Interval of metrics."""
    trace_percent: float | None
    """Share of requests with traces, or None if there are none."""


@dataclass(frozen=True)
class ServedModel:
    """A model, or one role of it, in one region.

    A canary is a model of its own: identity, servers, autoscalers, scraping and alerts are the same
    for both versions. Only the gateway knows that both answer to one name.
    """

    name: str
    """Name in the stack, or `NAME-VERSION` for a canary."""
    region: str
    site: ServingSite
    settings: Model
    """Settings in the stack; for a canary, with its own weights and replicas."""
    version: CanaryVersion | None
    """None if it is not a canary."""
    role: str
    """`serve`, or `decode` and `prefill` where prefill and decode are disaggregated."""
    capacity: RegionCapacity
    """Capacity that its replicas run on."""
    form: Form
    """`single` if the region has rungs of one kind only, regardless of the stack."""
    replicas: ReplicaRange
    """Number of replicas."""
    standby: int
    """Warm replicas of a paired model on its second kind of hardware, 0 in other forms."""
    buffer: int
    """Replicas for which empty nodes are kept for its first Deployment."""
    namespace: str
    """Namespace of its pods."""
    object_name: str
    """Name of its Kubernetes objects, including its service account."""
    deployments: Mapping[str, str]
    """Names of its Deployments by hardware kind, or one under `any`."""
    weights: str
    """`gs://BUCKET/PATH`, as read in the region."""
    is_tuned: bool
    """Whether GKE tunes the mounts of the bucket with its weights."""
    disk_zones: tuple[str, ...] | None
    """Zones of the region with a disk of its weights, or None if it has no disk."""
    is_first: bool
    """Whether the region is the model's first region by name."""
    prefill: "ServedModel | None" = None
    """Its prefill replicas, if it is disaggregated."""

    @property
    def is_from_zero(self) -> bool:
        """Whether it has no replica while nobody needs it."""
        return self.settings.is_from_zero

    @property
    def from_zero(self) -> FromZero:
        """The limits of requests that wait for its first replica, if it is from zero."""
        return self.settings.from_zero

    @property
    def buffer_rungs(self) -> Mapping[int, Rung]:
        """The rungs that may hold its buffer: those of its first Deployment if it is paired."""
        return self.pair[0] if self.form is Form.PAIRED else self.rungs

    @property
    def filling_kind(self) -> str | None:
        """Hardware of the Deployment that adds a replica for each that the first cannot place."""
        return self.capacity.kinds[-1] if self.form is Form.PAIRED else None

    @property
    def schedules(self) -> dict[str, ReplicaSchedule]:
        """Schedules by scale target. A standby has none: it follows the other Deployment."""
        return {
            one.deployments[kind]: one.replicas.schedule
            for one in self.roles
            if one.replicas.schedule is not None
            for kind in one.deployments
            if kind != one.filling_kind
        }

    @property
    def pair(self) -> tuple[Mapping[int, Rung], Mapping[int, Rung]]:
        """The rungs of a paired model's first Deployment, and of the one that fills in for it."""
        kinds = self.capacity.kinds
        return self.capacity.of_kind(kinds[0]), self.capacity.of_kind(kinds[-1])

    @property
    def rungs(self) -> Mapping[int, Rung]:
        """The validated rungs that it may run on, by index in the stack."""
        return self.capacity.rungs

    @property
    def served_name(self) -> str:
        """Name that clients request. A canary answers to its model's name."""
        return self.name if self.version is None else self.version.of

    @property
    def roles(self) -> Iterator["ServedModel"]:
        """The model itself, and its prefill replicas if any."""
        yield self
        if self.prefill is not None:
            yield self.prefill

    @property
    def peak_load(self) -> PeakLoad | None:
        """Load that its picker must bear; None if the stack states none."""
        peak = self.settings.peak
        if peak is None:
            return None
        return PeakLoad(
            peak.requests_per_second, peak.prompt_tokens, peak.answer_tokens, self.replicas.max
        )

    @property
    def picker_limit_mib(self) -> int:
        """Memory limit of its picker."""
        load = self.peak_load
        return (USUAL_PICKER if load is None else load.picker()).limit_mib

    @property
    def is_on_kuberay(self) -> bool:
        """Whether each replica is a Ray cluster."""
        return self.settings.spanning is Spanning.KUBERAY

    def is_group(self, kind: str) -> bool:
        """Return whether its replicas on a kind of hardware are groups of a LeaderWorkerSet."""
        rungs = self.capacity.of_kind(kind).values()
        return not self.is_on_kuberay and any(rung.is_multi_host for rung in rungs)

    @property
    def has_kv_tiers(self) -> bool:
        """Whether its engines keep KV cache outside the accelerators, and report on it."""
        return self.settings.settings.kv_offload is not None

    @property
    def chips_by_model(self) -> dict[str, int]:
        """Chips of a replica that hold one image model alone; none if each holds all."""
        images = self.settings.images
        return {} if images is None else images.chips_by_model(self.served_name)

    def controllers(self, kind: str) -> list[str]:
        """Return the names of what makes its pods on a kind of hardware; Ray clusters are many."""
        name = self.deployments[kind]
        if not self.is_on_kuberay:
            return [name]
        return [f"{name}-{number}" for number in range(self.replicas.max)]

    def zones(self, at: int) -> tuple[str, ...] | None:
        """Return the zones it can run in on a rung, or None if the rung's are not listed.

        A disk with its weights restricts a model to the zones that have one.

        Args:
            at: Place of the rung in the stack.
        """
        listed = self.capacity.listed_zones[at]
        rung = self.rungs[at]
        if not listed and not rung.zones_in(self.region):
            return None
        return tuple(zone for zone in listed if self.disk_zones is None or zone in self.disk_zones)
