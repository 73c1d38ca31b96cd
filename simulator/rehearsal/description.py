"""The description of a platform that a rehearsal runs: regions, models, replicas, rules."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from gke_inference.intent.schedule import ReplicaSchedule
from simulator.engine.settings import Deployment
from simulator.rehearsal.changes import Change, Rolling, Upgrades
from simulator.rehearsal.horizontal import Autoscaler
from twin.cluster.autoscaler.pods import Pod
from twin.cluster.autoscaler.rungs import Class
from twin.cluster.nodes.pool_spec import PoolSpec
from twin.world.capacity import World
from twin.world.rules import Rules
from twin.world.scenario import Step

START = datetime(2026, 1, 5, tzinfo=UTC)
"""Default time of the start of the traffic: a Monday."""
Signal = Literal["waiting", "running", "kv_usage"]
"""What a metric of an engine measures."""


@dataclass(frozen=True)
class Times:
    """Intervals, in seconds of the clock on which requests arrive.

    On Google Cloud that clock is the only one. On the twin, requests and the autoscaler of pods run
    in real time, and everything else `rules.speed` times as fast.
    """

    rules: Rules = field(default_factory=lambda: Rules(1.0))
    scrape: float = 15.0
    """Interval at which metrics are read from engines."""
    sync: float | None = None
    """Interval of the autoscaler of pods; None: that of the rule."""
    start: datetime = START
    """Time of day and date at which the traffic starts, for schedules."""
    step: float = 5.0
    """Length of a step of virtual time; decisions fall on its multiples."""

    @property
    def sync_seconds(self) -> float:
        """Interval of the autoscaler of pods."""
        return self.rules.scaled("hpa.sync") if self.sync is None else self.sync


@dataclass(frozen=True)
class Hardware:
    """A workload's replica on nodes of one machine type."""

    engine: int
    """Index into the engines of the platform."""
    created_seconds: float
    """Time from a pod's node until its containers run: image, mounts, identity."""
    loaded_seconds: float
    """Time from then until the first answer: weights, compilation, warm-up."""


@dataclass(frozen=True)
class Workload:
    """A Deployment or a LeaderWorkerSet with the replicas of a model in one region."""

    name: str
    region: str
    pool: str
    """Pool of the gateway that its replicas are in."""
    pods: tuple[Pod, ...]
    """Pods of one replica, as the autoscaler of nodes sees them; several are a group of hosts."""
    replicas: int
    """Replicas at the start."""
    hardware: Mapping[str, Hardware]
    """By machine type."""
    scaler: Autoscaler | None = None
    signals: Mapping[str, Signal] = field(default_factory=dict[str, Signal])
    """What the metrics of the autoscaler measure, by name."""
    follows: Mapping[str, str] = field(default_factory=dict[str, str])
    """External metrics of the autoscaler, each with the workload whose unplaced replicas it is."""
    schedules: Mapping[str, ReplicaSchedule] = field(default_factory=dict[str, ReplicaSchedule])
    """External metrics of the autoscaler, each with the schedule whose minimum it is."""
    grace_seconds: float = 30.0
    """Time that a replica has to answer its last requests before it is killed."""
    rolling: Rolling = field(default_factory=Rolling)
    starts_seconds: float | None = None
    """Of a program without an engine: time from a pod's node until it is ready."""


@dataclass(frozen=True)
class Region:
    """A region with its cluster."""

    name: str
    zones: tuple[str, ...]
    classes: Mapping[str, Class]
    pools: Mapping[str, PoolSpec] = field(default_factory=dict[str, PoolSpec])
    """Node pools that the stack creates, by name."""
    upgrades: Upgrades = field(default_factory=Upgrades)


@dataclass(frozen=True)
class Slo:
    """Latency objectives at the 95th percentile, in milliseconds; None: none."""

    ttft_p95_ms: float | None = None
    tpot_p95_ms: float | None = None


@dataclass(frozen=True)
class Fallback:
    """A backend that answers for a pool at capacity, with a budget in each region."""

    after_queue: int
    """Requests that wait at every engine before the backend gets any."""
    monthly_usd: float
    """US dollars per month and region."""
    input_usd_per_million: float
    output_usd_per_million: float
    timeout_seconds: float = 120.0
    """Time after which the relay cuts an answer of the backend off."""


@dataclass(frozen=True)
class Model:
    """A name that clients request."""

    name: str
    versions: tuple[tuple[str, float], ...]
    """Pools that answer, with the share of the requests that each gets; they sum to 1."""
    slo: Slo = field(default_factory=Slo)
    timeout_seconds: float = 600.0
    """Time after which the gateway cuts an answer off."""
    is_embedding: bool = False
    fallback: Fallback | None = None
    usd_per_million: tuple[float, float] = (0.0, 0.0)
    """Price of prompt and answer tokens that counts for the budgets of teams."""


@dataclass(frozen=True)
class Front:
    """How requests reach a region."""

    is_global: bool = False
    """Whether one address leads to the nearest region that answers; else each client asks the
    gateway of its own region."""
    failures: int = 5
    """Consecutive failures after which a region is ejected. These defaults are Envoy's
    (config.cluster.v3.OutlierDetection)."""
    ejection_seconds: float = 30.0
    overflow_percent: int | None = None
    """KV cache use of a region's replicas above which requests overflow to the next one, at a fleet
    gateway; None: the front is none."""


@dataclass(frozen=True)
class Limit:
    """What a team may send to the gateway of one region; None: no limit."""

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    tokens_per_month: float | None = None
    """Its share of the team's tokens in a month, which begins with the traffic."""
    usd_per_month: float | None = None
    """Its share of the team's budget, in US dollars."""


@dataclass(frozen=True)
class Team:
    """A team of clients."""

    limits: Mapping[str, Limit] = field(default_factory=dict[str, Limit])
    """By region; a region without one has no limit."""
    models: frozenset[str] | None = None
    """Models that it may request; None: all."""
    is_sheddable: bool = False
    """Whether its requests are refused while the replicas are saturated."""


@dataclass(frozen=True)
class Platform:
    """A platform."""

    project: str
    regions: tuple[Region, ...]
    models: tuple[Model, ...]
    workloads: tuple[Workload, ...]
    engines: tuple[Deployment, ...]
    programs: tuple[Workload, ...] = ()
    """Programs without which the gateway of their region answers nothing."""
    times: Times = field(default_factory=Times)
    front: Front = field(default_factory=Front)
    teams: Mapping[str, Team] = field(default_factory=dict[str, Team])
    world: World = field(default_factory=World)
    """Capacity at the start."""
    calendar: frozenset[str] = frozenset()
    """Reservations in calendar mode, which have a price of their own."""
    steps: tuple[Step, ...] = ()
    """Faults: changes of the capacity, each some time after the one before."""
    changes: tuple[Change, ...] = ()
    """Rollouts, canaries and upgrades, by time."""
