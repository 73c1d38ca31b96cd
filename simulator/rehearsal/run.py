"""The rehearsal: a loop over steps of virtual time.

In each step, machines come and go, pods start, the autoscalers decide, and the requests of the step
run on simulated engines. Every decision is a function that the twin uses as well, or the published
algorithm of a program that the twin runs (`horizontal`).
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from planner.choice.cost import machine_price
from simulator.demand.arrivals import GROWING, Arrivals, Traffic
from simulator.engine.replay import HTTP_SECONDS
from simulator.engine.stepped import Engines, Finished, Load, Requests
from simulator.rehearsal.accounts import TIMEOUT, TOO_LONG, Outcomes, Sample, Tally
from simulator.rehearsal.changes import Canary, Change, Counted, Upgrade, roll
from simulator.rehearsal.cluster import Cluster, Ledger, Node, Replica
from simulator.rehearsal.description import Platform, Workload
from simulator.rehearsal.events import Log
from simulator.rehearsal.gates import (
    CLOSED,
    FALLBACK,
    NO_PROGRAM,
    NO_REPLICA,
    SHED,
    TEAM_LIMIT,
    TEAM_MODEL,
    TEAM_MONTH,
    UNSERVED,
    Gates,
)
from simulator.rehearsal.horizontal import History, Pods, decide
from twin.world.scenario import Step, changed

Progress = Callable[[float, float, "Rehearsal"], None]
"""Called now and then with the seconds that are over, the length, and the rehearsal so far."""

LOST = "lost with its replica"
CHANGE = "platform.change"
"""Kind of the event of a rollout, a canary or an upgrade."""
NOT_CAPACITY = (TEAM_LIMIT, TEAM_MONTH, TEAM_MODEL, TOO_LONG)
"""Reasons of refusals that no number of replicas changes."""
_SAMPLES = 600
_WARM_SECONDS = 7200.0


Seen = tuple[float, dict[Replica, tuple[int, int, float]], int]


@dataclass
class Running:
    """A workload during the rehearsal."""

    workload: Workload
    wanted: int
    history: History = field(default_factory=History)
    samples: deque[Seen] = field(default_factory=lambda: deque(maxlen=64))
    """(seconds, (waiting, running, KV usage) of each ready replica, replicas without a node)."""
    recorded: list[Sample] = field(default_factory=list[Sample])
    missing: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Replica-seconds that were wanted and not ready, by reason."""
    replicas: list[Replica] = field(default_factory=list[Replica])
    revision: int = 0
    """Rollouts so far."""
    kinds: dict[int, int] = field(default_factory=dict[int, int])
    """Kinds of engines that the present revision has instead of those of the workload."""
    is_broken: bool = False
    """Whether replicas of the present revision never become ready."""
    is_rolling: bool = False
    _present: list[Replica] | None = None

    @property
    def present(self) -> list[Replica]:
        """Replicas that are not leaving."""
        if self._present is None:
            self._present = [each for each in self.replicas if not each.is_leaving]
        return self._present

    def changed(self) -> None:
        """Record that a replica came, leaves or is gone."""
        self._present = None


@dataclass(frozen=True)
class Bought:
    """Machine time of one kind."""

    pool: str
    """Pool of the gateway whose replicas ran on it; empty if none ever did."""
    region: str
    provisioning: str
    machine: str
    accelerator: str


class Rehearsal:
    """A platform under traffic, in virtual time.

    Args:
        platform: The platform.
        traffic: Its requests.
        engines: Engines of the kinds `platform.engines`.

    Raises:
        ValueError: The traffic has a model that the platform lacks.
    """

    def __init__(self, platform: Platform, traffic: Traffic, engines: Engines) -> None:
        self.platform = platform
        self.traffic = traffic
        self.log = Log()
        self._engines = engines
        self._times = platform.times
        self._rules = platform.times.rules
        self._ledger = Ledger(platform.world, platform.project)
        self._clusters = {
            region.name: Cluster(region, self._rules, self._ledger, self.log, self._ended_node)
            for region in platform.regions
        }
        self.workloads = [Running(each, each.replicas) for each in platform.workloads]
        self.programs = [Running(each, each.replicas) for each in platform.programs]
        """Programs of the gateways."""
        self._deployed = [*self.programs, *self.workloads]
        self._running = {id(each.workload): each for each in self._deployed}
        self._regions = tuple(region.name for region in platform.regions)
        self._models = _by_traffic(platform, traffic)
        self._is_embedding = np.array([model.is_embedding for model in platform.models], np.bool_)
        """By model: its answer is a vector, which the step has that ends the prompt."""
        self.machines: defaultdict[Bought, float] = defaultdict(float)
        """Machine-seconds."""
        self.chips: list[tuple[float, Counter[tuple[str, str]]]] = []
        """Chips on nodes that are ready, by accelerator and provisioning, over time."""
        self._started = 0.0
        self.now = 0.0
        """Seconds since the start of the warm-up."""
        self.gates = Gates(platform, traffic, self.log)
        self._pools = {pool: number for number, pool in enumerate(self.gates.pools)}
        self._serving: dict[int, list[int]] = {at: [] for at in range(len(self._pools))}
        interval = max(self._times.step, traffic.seconds / _SAMPLES)
        self.tally = Tally(platform.models, self._regions, traffic.teams, interval, traffic.seconds)
        self._load: Load | None = None
        self._ended: Finished | None = None
        is_fleet = platform.front.overflow_percent is not None
        self._fleet_seconds = self._rules.scaled("fleet.overflow") if is_fleet else 0.0

    @property
    def outcomes(self) -> dict[tuple[str, str], Outcomes]:
        """Outcomes by model and region of the pool; of refused requests, the client's nearest."""
        return self.tally.outcomes

    @property
    def seconds(self) -> float:
        """Seconds since the start of the traffic; negative while the platform warms up."""
        return self.now - self._started

    # -- the loop

    def run(self, progress: Progress | None = None) -> None:
        """Warm up, then run all traffic and wait for the last answers."""
        step, speed = self._times.step, self._rules.speed
        warm = np.ceil(_WARM_SECONDS / speed / step) * step
        self._started = self.log.zero = float(warm)
        for cluster in self._clusters.values():
            cluster.create_pools(self.now)
        for running in self._deployed:
            self._grow(running, running.workload.replicas, self.now)
        while self.now < warm:
            self._step(None)
            self.now += step
        self._begin()
        steps = iter(_due(self.platform))
        following = next(steps, None)
        changes = sorted(self.platform.changes, key=lambda each: each.at)
        end = self.traffic.seconds
        for part in _slices(self.traffic, step):
            is_changed = False
            while following is not None and self.seconds >= following[0]:
                self._ledger.world = changed(self._ledger.world, following[1])
                self.log.add(self.now, "scenario.step", "", following[1].title)
                is_changed, following = True, next(steps, None)
            while changes and self.seconds >= changes[0].at:
                self._change(changes.pop(0))
            self._step(part, is_changed=is_changed)
            self.now += step
            if progress is not None:
                progress(min(self.seconds, end), end, self)
        limit = max((model.timeout_seconds for model in self.platform.models), default=0.0)
        until = self.now + limit + 2 * step
        while self.tally.open.count and self.now < until:
            self._step(None)
            self.now += step
        self._close()

    def _begin(self) -> None:
        """Start the accounts when the warm-up is over."""
        self.machines.clear()
        for node in self._nodes():
            node.requested = max(node.requested, self._started)
        for running in self.workloads:
            running.recorded.clear()
            running.missing.clear()
        self.log.events.clear()

    def _close(self) -> None:
        self._account()
        for node in self._nodes():
            self._bill(node, self._started + self.traffic.seconds)

    def _step(self, part: Arrivals | None, *, is_changed: bool = False) -> None:
        """Run one step, which begins at `now`."""
        now, step = self.now, self._times.step
        changed_pools = False
        for cluster in self._clusters.values():
            for replica, ends in cluster.advance(now, has_changed=is_changed):
                self._leave(replica, ends)
        for running in self._deployed:
            self._reconcile(running)
        for cluster in self._clusters.values():
            for replica in cluster.place(now):
                self._placed(replica)
            if self._is_due(max(step, self._rules.scaled("autoscaler.scan"))):
                cluster.scan(now)
                for replica in cluster.evicted():
                    self._evict(replica)
        for running in self.workloads:
            changed_pools |= self._ready(running)
        if changed_pools:
            self._serve()
        if part is not None and self._is_due(self.tally.interval):
            self._record()
        self._count_missing(step)
        self._engines.advance(self._send(part), now + step)
        self._load = None
        self._account()  # for the step before, while the engines compute this one
        self._ended = self._engines.finished()
        self.tally.open.end(self._ended.number)
        self._cut_off(now + step)
        if self._fleet_seconds and self._is_due(self._fleet_seconds, now + step):
            self.gates.balance(self._serving, self._loads())
        if self._is_due(self._times.scrape, now + step):
            self._sample(now + step)
        if self._is_due(self._times.sync_seconds, now + step):
            for running in self.workloads:
                self._autoscale(running, now + step)

    def _account(self) -> None:
        """Account for the requests that ended in the last step that was computed."""
        if self._ended is not None:
            self.tally.finish(self._ended, self._started)
            self._ended = None

    def _is_due(self, interval: float, now: float | None = None) -> bool:
        """Return whether an interval ends in the step that begins at a time."""
        at, step = self.now if now is None else now, self._times.step
        return int((at + 1e-9) // interval) != int((at - step + 1e-9) // interval)

    # -- rollouts, canaries, upgrades

    def _change(self, change: Change) -> None:
        """Begin a change of the platform."""
        if isinstance(change, Upgrade):
            count = self._clusters[change.region].upgrade(self._started + change.until)
            self.log.add(self.now, CHANGE, change.region, f"{change.title}: {count} groups")
            return
        self.log.add(self.now, CHANGE, "", change.title)
        if isinstance(change, Canary):
            self.gates.divide(change.model, change.versions)
            return
        for running in self.workloads:
            if (running.workload.name, running.workload.region) in change.workloads:
                running.revision += 1
                running.kinds = {**running.kinds, **change.kinds}
                running.is_broken, running.is_rolling = change.is_broken, True

    # -- replicas

    def _cluster(self, running: Running) -> Cluster:
        return self._clusters[running.workload.region]

    def _grow(self, running: Running, wanted: int, now: float) -> None:
        running.wanted = wanted
        self._add(running, wanted - len(running.present), now)

    def _add(self, running: Running, count: int, now: float) -> None:
        for _ in range(count):
            replica = self._cluster(running).create(running.workload, now)
            replica.revision = running.revision
            running.replicas.append(replica)
        running.changed()

    def _reconcile(self, running: Running) -> None:
        """Remove what has ended, and make as many replicas as are wanted."""
        now = self.now
        present = running.present
        is_whole = len(present) == running.wanted and len(present) == len(running.replicas)
        if is_whole and not running.is_rolling:
            return
        for replica in [each for each in running.replicas if each.leaves_at is not None]:
            has_ended = replica.engine is None or not self._is_busy(replica)
            if has_ended or now >= (replica.leaves_at or 0.0):
                self._remove(running, replica)
        if running.is_rolling:
            self._roll(running)
            return
        present = running.present
        if len(present) < running.wanted:
            self._grow(running, running.wanted, now)
        elif len(present) > running.wanted:
            self._shrink(running, sorted(present, key=_keeping)[: len(present) - running.wanted])

    def _shrink(self, running: Running, leaving: Sequence[Replica]) -> None:
        """Delete replicas, with their time to answer what they have."""
        for replica in leaving:
            self._leave(replica, self.now + running.workload.grace_seconds)
            if replica.engine is None:
                self._remove(running, replica)

    def _roll(self, running: Running) -> None:
        """Take a rollout further, as its controller does."""
        now, wanted = self.now, running.wanted
        new = [each for each in running.present if each.revision == running.revision]
        old = [each for each in running.present if each.revision != running.revision]
        if len(new) > wanted:  # a scale-in while the rollout runs
            self._shrink(running, sorted(new, key=_keeping)[: len(new) - wanted])
            return
        ready = sum(each.is_ready(now) for each in new)
        old_ready = sum(each.is_ready(now) for each in old)
        counted = Counted(old_ready, len(old) - old_ready, ready, len(new) - ready)
        created, unready, spare = roll(running.workload.rolling, wanted, counted)
        ordered = sorted(old, key=_keeping)  # those that are not ready first
        leaving = [each for each in ordered if not each.is_ready(now)][:unready]
        leaving += [each for each in ordered if each.is_ready(now)][:spare]
        self._shrink(running, leaving)
        self._add(running, created, now)
        if not old and ready == len(new) == wanted:
            running.is_rolling = False
            name, region = running.workload.name, running.workload.region
            self.log.add(now, "rollout.done", region, f"{name}: {wanted} replicas are new")

    def _remove(self, running: Running, replica: Replica) -> None:
        if replica.engine is not None:
            lost = self._engines.kill(replica.engine, self.now)
            self.tally.fail(lost, LOST, "lost")
        running.replicas.remove(replica)
        running.changed()
        self._clusters[running.workload.region].remove(replica)

    def _is_busy(self, replica: Replica) -> bool:
        """Return whether a draining replica has requests."""
        load = self._loads()
        return bool(np.any(load.replica == replica.engine))

    def _loads(self) -> Load:
        if self._load is None:
            self._load = self._engines.load()
        return self._load

    def _leave(self, replica: Replica, ends: float) -> None:
        """Take a replica out of its pool; it is killed at a time unless it ends before."""
        if replica.leaves_at is not None:
            replica.leaves_at = min(replica.leaves_at, ends)
            return
        replica.leaves_at = ends
        self._running[id(replica.workload)].changed()
        if replica.engine is not None:
            pool = self._pools[replica.workload.pool, replica.workload.region]
            if replica.engine in self._serving[pool]:
                self._serving[pool].remove(replica.engine)
            self._engines.drain(replica.engine, self.now)
            self._load = None

    def _evict(self, replica: Replica) -> None:
        """Evict a replica within the disruption budget of its pool: one at a time."""
        pool = (replica.workload.pool, replica.workload.region)
        mates = [
            each
            for running in self._deployed
            if (running.workload.pool, running.workload.region) == pool
            and (pool[0] or running.workload is replica.workload)
            for each in running.replicas
        ]
        if all(each.is_ready(self.now) for each in mates):
            most = self._rules.seconds("autoscaler.grace")
            grace = min(most, replica.workload.grace_seconds)
            self._leave(replica, self.now + grace)

    def _placed(self, replica: Replica) -> None:
        if replica.workload.starts_seconds is not None:
            starts = replica.workload.starts_seconds
            replica.runs_at = replica.ready_at = self.now + starts / self._rules.speed
            return
        hardware = replica.workload.hardware[replica.nodes[0].shape.machine.name]
        speed = self._rules.speed
        replica.runs_at = self.now + hardware.created_seconds / speed
        replica.ready_at = replica.runs_at + hardware.loaded_seconds / speed
        running = self._running[id(replica.workload)]
        if running.is_broken and replica.revision == running.revision:
            replica.ready_at = np.inf

    def _ready(self, running: Running) -> bool:
        """Add the engines of replicas that are ready now; return whether there is one."""
        has_changed = False
        for replica in running.replicas:
            is_due = replica.nodes and replica.engine is None and not replica.is_leaving
            if not is_due or self.now < replica.ready_at:
                continue
            machine = replica.nodes[0].shape.machine.name
            kind = running.workload.hardware[machine].engine
            if replica.revision == running.revision:
                kind = running.kinds.get(kind, kind)
            replica.engine = self._engines.add(kind, self.now)
            pool = self._pools[running.workload.pool, running.workload.region]
            self._serving[pool].append(replica.engine)
            has_changed = True
        return has_changed

    def _closed(self) -> frozenset[str]:
        """Return the regions whose gateway has no ready replica of one of its programs."""
        return frozenset(
            each.workload.region
            for each in self.programs
            if not any(one.nodes and one.ready_at <= self.now for one in each.present)
        )

    def _serve(self) -> None:
        for pool, replicas in self._serving.items():
            self._engines.serve(pool, replicas)

    # -- autoscaling of pods

    def _sample(self, now: float) -> None:
        load = self._loads()
        rows = zip(
            load.replica.tolist(), load.waiting.tolist(), load.running.tolist(),
            load.kv_usage.tolist(), strict=True,
        )  # fmt: skip
        by_engine = {number: (waiting, busy, usage) for number, waiting, busy, usage in rows}
        for running in self.workloads:
            values = {
                replica: by_engine[replica.engine]
                for replica in running.present
                if replica.engine in by_engine
            }
            unplaced = sum(not each.nodes for each in running.present)
            running.samples.append((now, values, unplaced))

    def _newest(self, running: Running, now: float) -> Seen | None:
        """Return the newest sample that can be queried; None without one."""
        latest = now - self._rules.scaled("metrics.ingestion")
        oldest = latest - self._rules.scaled("metrics.window")
        oldest = min(oldest, latest - 4 * self._times.scrape)
        for sample in reversed(running.samples):
            if sample[0] <= latest + 1e-9:
                return sample if sample[0] >= oldest else None
        return None

    def _autoscale(self, running: Running, now: float) -> None:
        scaler = running.workload.scaler
        if scaler is None:
            return
        sample = self._newest(running, now)
        present = running.present
        values: dict[str, list[float]] = {}
        if sample is not None:
            known = [sample[1][each] for each in present if each in sample[1]]
            for name, signal in running.workload.signals.items():
                at = ("waiting", "running", "kv_usage").index(signal)
                values[name] = [float(one[at]) for one in known]
        external: dict[str, float] = {}
        for name, followed in running.workload.follows.items():
            other = next(each for each in self.workloads if each.workload.name == followed
                         and each.workload.region == running.workload.region)  # fmt: skip
            seen = self._newest(other, now)
            if seen is not None:
                external[name] = float(seen[2])
        recorded = now - self._rules.scaled("metrics.ingestion") - self._started
        clock = self._times.start + timedelta(seconds=recorded)
        for name, schedule in running.workload.schedules.items():
            external[name] = float(schedule.least_at(clock))
        runs = sum(bool(each.nodes) and each.runs_at <= now for each in present)
        pods = Pods(values, runs, len(present) - runs, external)
        wanted = decide(scaler, running.wanted, pods, running.history, now)
        if wanted != running.wanted:
            running.wanted = wanted

    # -- requests

    def _send(self, part: Arrivals | None) -> Requests:
        """Return the requests of a step that reach a replica; account for the others."""
        if part is None or not len(part):
            return Requests.none()
        model, open_ = self._models[part.model], self.tally.open
        client = self.gates.clients(part)
        load = self._loads() if self.gates.reads_load else None
        world = self._ledger.world
        lost = frozenset(name for name in self._regions if world.is_lost(name))
        pool, region = self.gates.route(
            part, model, client, lost, self._serving, load, self.now, self._closed()
        )
        key = self.tally.key(model, region)
        self.tally.arrive(part.seconds, key)
        numbers = open_.take(len(part))
        open_.seconds[numbers] = part.seconds
        open_.key[numbers] = key
        open_.team[numbers] = part.team
        open_.prompt_tokens[numbers] = part.prompt_tokens
        open_.output_tokens[numbers] = part.output_tokens
        for reason, refused in self.gates.check(part, model, region, pool):
            self.tally.fail(numbers[refused], reason, "refused")
        shed = self.gates.shed(part, pool, self._serving, load)
        self.tally.fail(numbers[shed], SHED, "refused")
        self.tally.fail(numbers[pool == UNSERVED], NO_REPLICA, "refused")
        self.tally.fail(numbers[pool == CLOSED], NO_PROGRAM, "refused")
        self.tally.fall_back(numbers[pool == FALLBACK])
        sent = np.flatnonzero(pool >= 0)
        prompts = part.prompt_tokens[sent].astype(np.int64)
        outputs = np.where(self._is_embedding[model[sent]], 1, part.output_tokens[sent])
        prefix = part.prefix[sent]
        return Requests(
            numbers[sent],
            part.seconds[sent] + self._started,
            pool[sent],
            prompts,
            outputs,
            prefix,
            np.where(prefix >= GROWING, prompts + outputs, part.prefix_tokens[sent]),
        )

    def _cut_off(self, until: float) -> None:
        """Cancel the requests whose gateway has given up on them."""
        open_ = self.tally.open
        running = open_.running()
        limits = self.tally.timeout[self.tally.model_of(open_.key[running])]
        over = running[until - self._started - open_.seconds[running] + HTTP_SECONDS > limits]
        if len(over):
            self._engines.cancel(over, until)
            self.tally.fail(over, TIMEOUT, "cut")

    # -- records

    def _record(self) -> None:
        self._record_chips()
        load = self._loads()
        running = dict(zip(load.replica.tolist(), load.running.tolist(), strict=True))
        waiting = dict(zip(load.replica.tolist(), load.waiting.tolist(), strict=True))
        for each in self.workloads:
            present = each.present
            ready = [one for one in present if one.engine is not None]
            placed = sum(bool(one.nodes) for one in present)
            numbers = [one.engine for one in ready if one.engine is not None]
            each.recorded.append(
                Sample(
                    self.seconds,
                    len(ready),
                    placed - len(ready),
                    len(present) - placed,
                    each.wanted,
                    sum(running.get(number, 0) for number in numbers),
                    sum(waiting.get(number, 0) for number in numbers),
                )
            )

    def _record_chips(self) -> None:
        found: Counter[tuple[str, str]] = Counter()
        for node in self._nodes():
            machine = node.shape.machine
            if machine.accelerator is not None and node.ready_at <= self.now:
                found[machine.accelerator, self._way(node)] += machine.chips
        self.chips.append((self.seconds, found))

    def _nodes(self) -> Iterator[Node]:
        for cluster in self._clusters.values():
            yield from cluster.nodes.values()

    def _count_missing(self, step: float) -> None:
        for each in self.workloads:
            is_creating: bool | None = None  # equal for all replicas of a workload
            for replica in each.present:
                if replica.engine is not None:
                    continue
                if replica.nodes:
                    reason = "image, weights, compilation"
                else:
                    if is_creating is None:
                        is_creating = self._cluster(each).is_creating(replica.pods[0])
                    reason = "node" if is_creating else "no capacity"
                each.missing[reason] += step

    def _way(self, node: Node) -> str:
        """Return the way in which a node's machine was bought."""
        is_calendar = node.shape.reservation in self.platform.calendar
        return "calendar" if is_calendar else node.shape.provisioning

    def _ended_node(self, node: Node) -> None:
        self._bill(node, min(self.now, self._started + self.traffic.seconds))

    def _bill(self, node: Node, until: float) -> None:
        """Add the time of a node from its request until its end."""
        machine = node.shape.machine
        if machine.accelerator is None or until <= node.requested:
            return
        region = node.zone.rpartition("-")[0]
        key = Bought(node.owner, region, self._way(node), machine.name, machine.accelerator)
        self.machines[key] += until - node.requested


def _keeping(replica: Replica) -> tuple[bool, bool, float]:
    """Return the order in which replicas are removed, as a ReplicaSet does: the newest first."""
    return replica.engine is not None, bool(replica.nodes), -replica.created


def usd_per_hour(bought: Bought) -> float | None:
    """Return the list price of a machine, as `cost` has it; None without a published price."""
    found = machine_price(bought.accelerator, bought.region, bought.provisioning, bought.machine)
    return None if found is None else found.usd_per_hour


def _by_traffic(platform: Platform, traffic: Traffic) -> NDArray[np.int64]:
    """Return the index of the platform's model for each model of the traffic.

    Raises:
        ValueError: The platform lacks a model.
    """
    names = [model.name for model in platform.models]
    for name in traffic.models:
        if name not in names:
            raise ValueError(f"model: must be one of {', '.join(names)}, got {name!r}")
    return np.array([names.index(name) for name in traffic.models], np.int64)


def _due(platform: Platform) -> Iterator[tuple[float, Step]]:
    at = 0.0
    for step in platform.steps:
        at += (step.after or 0.0) / platform.times.rules.speed
        yield at, step


def _slices(traffic: Traffic, step: float) -> Iterator[Arrivals | None]:
    """Yield the requests of each step, in order; None for a step without any."""
    end, length = step, traffic.seconds
    rest: list[Arrivals] = []
    for chunk in traffic.chunks():
        begin = 0
        while True:
            at = int(np.searchsorted(chunk.seconds, end, side="left"))
            if at >= len(chunk):
                rest.append(chunk[begin:])
                break
            rest.append(chunk[begin:at])
            yield _joined(rest)
            rest, begin, end = [], at, end + step
    yield _joined(rest)
    while end < length:
        end += step
        yield None


def _joined(parts: list[Arrivals]) -> Arrivals | None:
    parts = [part for part in parts if len(part)]
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else Arrivals.joined(parts)
