"""The rehearsal: a loop over steps of virtual time.

In each step, machines come and go, pods start, the autoscalers decide, and the requests of the step
run on simulated engines. Every decision is a function that the twin uses as well, or the published
algorithm of a program that the twin runs (`horizontal`).
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gke_inference.catalogue.nearness import by_nearness
from planner.choice.cost import machine_price
from simulator.demand.arrivals import GROWING, Arrivals, Traffic
from simulator.engine.replay import HTTP_SECONDS
from simulator.engine.stepped import Engines, Load, Requests
from simulator.rehearsal.accounts import Open, Outcomes, Sample
from simulator.rehearsal.cluster import Cluster, Ledger, Node, Replica
from simulator.rehearsal.description import Limit, Model, Platform, Workload
from simulator.rehearsal.events import Log
from simulator.rehearsal.horizontal import History, Pods, decide
from simulator.rehearsal.routing import Ejections, TeamMeter, saturation
from twin.world.scenario import Step, changed

Progress = Callable[[float, float, "Rehearsal"], None]
"""Called now and then with the seconds that are over, the length, and the rehearsal so far."""

NO_REPLICA, TOO_LONG, SHED = "no replica", "longer than the context", "saturated"
TEAM_LIMIT, TIMEOUT, LOST = "limit of the team", "timeout", "lost with its replica"
_SAMPLES = 600
_WARM_SECONDS = 7200.0
_NO_TEAM = "no team"


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

    @property
    def present(self) -> list[Replica]:
        """Replicas that are not leaving."""
        return [each for each in self.replicas if not each.is_leaving]


@dataclass(frozen=True)
class Bought:
    """Machine time of one kind."""

    pool: str
    """Pool of the gateway whose replicas ran on it; empty if none ever did."""
    region: str
    provisioning: str
    machine: str
    accelerator: str


@dataclass
class Series:
    """Counts of one model by interval of arrival."""

    sent: NDArray[np.int64]
    failed: NDArray[np.int64]
    late: NDArray[np.int64]


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
        self._regions = tuple(region.name for region in platform.regions)
        self._models = _by_traffic(platform, traffic)
        self._is_embedding = np.array([model.is_embedding for model in platform.models], np.bool_)
        """By model: its answer is a vector, which the step has that ends the prompt."""
        self.outcomes = {
            (model.name, region): Outcomes()
            for model in platform.models
            for region in self._regions
        }
        """By model and region of the pool; of refused requests, the client's nearest region."""
        self.teams: dict[str, Outcomes] = {}
        self.team_tokens: Counter[tuple[str, str]] = Counter()
        """Tokens of answered requests, by model and team."""
        self.machines: defaultdict[Bought, float] = defaultdict(float)
        """Machine-seconds."""
        self.chips: list[tuple[float, Counter[tuple[str, str]]]] = []
        """Chips on nodes that are ready, by accelerator and provisioning, over time."""
        self._started = 0.0
        self.now = 0.0
        """Seconds since the start of the warm-up."""
        self._pools = _pools(platform)
        self._serving: dict[int, list[int]] = {at: [] for at in range(len(self._pools))}
        self._open = Open()
        self._ejections = Ejections(platform.front, len(self._regions))
        self._owner: dict[int, Replica] = {}
        self._meters = [TeamMeter(platform.teams.get(name, Limit())) for name in traffic.teams]
        self._interval = max(self._times.step, traffic.seconds / _SAMPLES)
        buckets = int(np.ceil(traffic.seconds / self._interval)) + 1
        self.series = {
            model.name: Series(*(np.zeros(buckets, np.int64) for _ in range(3)))
            for model in platform.models
        }
        self.interval = self._interval
        """Length of an interval of the series, in seconds."""
        self._load: Load | None = None
        self._spread = 0

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
        for running in self.workloads:
            self._grow(running, running.workload.replicas, self.now)
        while self.now < warm:
            self._step(None)
            self.now += step
        self._begin()
        steps = iter(_due(self.platform))
        following = next(steps, None)
        end = self.traffic.seconds
        for part in _slices(self.traffic, step):
            is_changed = False
            while following is not None and self.seconds >= following[0]:
                self._ledger.world = changed(self._ledger.world, following[1])
                self.log.add(self.now, "scenario.step", "", following[1].title)
                is_changed, following = True, next(steps, None)
            self._step(part, is_changed=is_changed)
            self.now += step
            if progress is not None:
                progress(min(self.seconds, end), end, self)
        limit = max((model.timeout_seconds for model in self.platform.models), default=0.0)
        until = self.now + limit + step
        while self._open.count and self.now < until:
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
        self._fail(self._open.numbers(), TIMEOUT, "cut")  # all are older than the longest timeout
        for node in self._nodes():
            self._bill(node, self._started + self.traffic.seconds)

    def _step(self, part: Arrivals | None, *, is_changed: bool = False) -> None:
        """Run one step, which begins at `now`."""
        now, step = self.now, self._times.step
        changed_pools = False
        for cluster in self._clusters.values():
            for replica, ends in cluster.advance(now, has_changed=is_changed):
                self._leave(replica, ends)
        for running in self.workloads:
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
        if part is not None and self._is_due(self._interval):
            self._record()
        self._count_missing(step)
        requests = self._send(part, now + step)
        self._engines.advance(requests, now + step)
        self._load = None
        self._finish()
        if self._is_due(self._times.scrape, now + step):
            self._sample(now + step)
        if self._is_due(self._times.sync_seconds, now + step):
            for running in self.workloads:
                self._autoscale(running, now + step)

    def _is_due(self, interval: float, now: float | None = None) -> bool:
        """Return whether an interval ends in the step that begins at a time."""
        at, step = self.now if now is None else now, self._times.step
        return int((at + 1e-9) // interval) != int((at - step + 1e-9) // interval)

    # -- replicas

    def _cluster(self, running: Running) -> Cluster:
        return self._clusters[running.workload.region]

    def _grow(self, running: Running, wanted: int, now: float) -> None:
        running.wanted = wanted
        while len(running.present) < wanted:
            running.replicas.append(self._cluster(running).create(running.workload, now))

    def _reconcile(self, running: Running) -> None:
        """Remove what has ended, and make as many replicas as are wanted."""
        now = self.now
        for replica in [each for each in running.replicas if each.leaves_at is not None]:
            has_ended = replica.engine is None or not self._is_busy(replica)
            if has_ended or now >= (replica.leaves_at or 0.0):
                self._remove(running, replica)
        present = running.present
        if len(present) < running.wanted:
            self._grow(running, running.wanted, now)
        elif len(present) > running.wanted:
            present.sort(key=_keeping)
            for replica in present[: len(present) - running.wanted]:
                self._leave(replica, now + running.workload.grace_seconds)
                if replica.engine is None:
                    self._remove(running, replica)

    def _remove(self, running: Running, replica: Replica) -> None:
        if replica.engine is not None:
            lost = self._engines.kill(replica.engine, self.now)
            self._owner.pop(replica.engine, None)
            self._fail(lost, LOST, "lost")
        running.replicas.remove(replica)
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
        if replica.engine is not None:
            pool = self._pools.index((replica.workload.pool, replica.workload.region))
            if replica.engine in self._serving[pool]:
                self._serving[pool].remove(replica.engine)
            self._engines.drain(replica.engine, self.now)
            self._load = None

    def _evict(self, replica: Replica) -> None:
        """Evict a replica within the disruption budget of its pool: one at a time."""
        pool = (replica.workload.pool, replica.workload.region)
        mates = [
            each
            for running in self.workloads
            if (running.workload.pool, running.workload.region) == pool
            for each in running.replicas
        ]
        if all(each.engine is not None and not each.is_leaving for each in mates):
            most = self._rules.seconds("autoscaler.grace")
            grace = min(most, replica.workload.grace_seconds)
            self._leave(replica, self.now + grace)

    def _placed(self, replica: Replica) -> None:
        hardware = replica.workload.hardware[replica.nodes[0].shape.machine.name]
        speed = self._rules.speed
        replica.runs_at = self.now + hardware.created_seconds / speed
        replica.ready_at = replica.runs_at + hardware.loaded_seconds / speed

    def _ready(self, running: Running) -> bool:
        """Add the engines of replicas that are ready now; return whether there is one."""
        has_changed = False
        for replica in running.replicas:
            is_due = replica.nodes and replica.engine is None and not replica.is_leaving
            if not is_due or self.now < replica.ready_at:
                continue
            machine = replica.nodes[0].shape.machine.name
            kind = running.workload.hardware[machine].engine
            replica.engine = self._engines.add(kind, self.now)
            self._owner[replica.engine] = replica
            pool = self._pools.index((running.workload.pool, running.workload.region))
            self._serving[pool].append(replica.engine)
            has_changed = True
        return has_changed

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
        runs = sum(bool(each.nodes) and each.runs_at <= now for each in present)
        pods = Pods(values, runs, len(present) - runs, external)
        wanted = decide(scaler, running.wanted, pods, running.history, now)
        if wanted != running.wanted:
            running.wanted = wanted

    # -- requests

    def _send(self, part: Arrivals | None, until: float) -> Requests:
        """Return the requests of a step that reach a replica; account for the others."""
        if part is None or not len(part):
            return Requests.none()
        model = self._models[part.model]
        client = self._clients(part)
        bucket = np.minimum((part.seconds / self._interval).astype(np.int64), self._buckets - 1)
        for at, one in enumerate(self.platform.models):
            mine = model == at
            if mine.any():
                counts = np.bincount(bucket[mine], minlength=self._buckets)
                self.series[one.name].sent += counts
        numbers = self._open.take(len(part))
        self._open.seconds[numbers] = part.seconds
        self._open.model[numbers] = model
        self._open.team[numbers] = part.team
        self._open.prompt_tokens[numbers] = part.prompt_tokens
        pool = np.full(len(part), -1, np.int64)
        region = client.copy()
        for at, one in enumerate(self.platform.models):
            for of in range(len(self._regions)):
                mine = np.flatnonzero((model == at) & (client == of))
                if len(mine):
                    self._route(one, of, mine, pool, region)
        self._open.region[numbers] = region
        for at, one in enumerate(self.platform.models):
            for of, name in enumerate(self._regions):
                count = int(((model == at) & (region == of)).sum())
                self.outcomes[one.name, name].sent += count
        self._limit_teams(part, numbers, pool)
        self._shed(part, numbers, pool)
        unserved = pool == -1
        if unserved.any():
            self._fail(numbers[unserved], NO_REPLICA, "refused")
        sent = pool >= 0
        prompts = part.prompt_tokens[sent].astype(np.int64)
        outputs = np.where(
            self._is_embedding[model[sent]], 1, part.output_tokens[sent].astype(np.int64)
        )
        grows = part.prefix[sent] >= GROWING
        return Requests(
            numbers[sent],
            part.seconds[sent] + self._started,
            pool[sent],
            prompts,
            outputs,
            part.prefix[sent],
            np.where(grows, prompts + outputs, part.prefix_tokens[sent]),
        )

    @property
    def _buckets(self) -> int:
        return len(next(iter(self.series.values())).sent)

    def _clients(self, part: Arrivals) -> NDArray[np.int64]:
        """Return the region nearest to each client; those of unknown clients alternate."""
        nearest = np.array(
            [
                self._regions.index(by_nearness(name, self._regions)[0])
                for name in self.traffic.regions
            ]
            or [0],
            np.int64,
        )
        found = nearest[np.maximum(part.region, 0)]
        unknown = np.flatnonzero(part.region < 0)
        found[unknown] = (self._spread + np.arange(len(unknown))) % len(self._regions)
        self._spread += len(unknown)
        return found

    def _route(
        self,
        model: Model,
        client: int,
        mine: NDArray[np.int64],
        pool: NDArray[np.int64],
        region: NDArray[np.int64],
    ) -> None:
        """Choose region and pool of requests of one model from one region."""
        left = mine
        for name in self._reachable(model, self._regions[client]):
            if not len(left):
                return
            at = self._regions.index(name)
            region[left] = at
            if self._ledger.world.is_lost(name):
                if self.platform.front.is_global:
                    continue  # a connection that fails is tried in the next region
                return
            versions = [
                (self._pools.index((version, name)), share)
                for version, share in model.versions
                if (version, name) in self._pools
            ]
            live = [(index, share) for index, share in versions if self._serving[index]]
            if live:
                self._ejections.answered(name)
                pool[left] = _split(live, left)
                return
            refused = len(left)
            if self.platform.front.is_global:
                refused = min(refused, self._ejections.room(name))
            if not self._ejections.failed(name, refused, self.now):
                return
            message = f"{self.platform.front.failures} failures in a row: ejected"
            self.log.add(self.now, "front.ejected", name, message)
            left = left[refused:]

    def _reachable(self, model: Model, client: str) -> list[str]:
        """Return the regions that serve a model, nearest first, without ejected ones."""
        served = tuple(
            name
            for name in self._regions
            if any((version, name) in self._pools for version, _ in model.versions)
        )
        ordered = list(by_nearness(client, served))
        if not self.platform.front.is_global:
            return ordered[:1]
        return [name for name in ordered if not self._ejections.is_out(name, self.now)] or ordered

    def _limit_teams(
        self, part: Arrivals, numbers: NDArray[np.int64], pool: NDArray[np.int64]
    ) -> None:
        for at, meter in enumerate(self._meters):
            if meter.limit.requests_per_minute is None and meter.limit.tokens_per_minute is None:
                continue
            mine = np.flatnonzero((part.team == at) & (pool >= 0))
            tokens = part.prompt_tokens[mine].astype(np.int64) + part.output_tokens[mine]
            over = mine[~meter.admit(part.seconds[mine], tokens)]
            if len(over):
                self._fail(numbers[over], TEAM_LIMIT, "refused")
                pool[over] = -2

    def _shed(self, part: Arrivals, numbers: NDArray[np.int64], pool: NDArray[np.int64]) -> None:
        sheddable = [at for at, meter in enumerate(self._meters) if meter.limit.is_sheddable]
        if not sheddable:
            return
        may = np.isin(part.team, sheddable) & (pool >= 0)
        for at in np.unique(pool[may]).tolist():
            load = self._loads()
            own = np.isin(load.replica, self._serving[at])
            if saturation(load.waiting[own], load.kv_usage[own]) >= 1:
                over = np.flatnonzero(may & (pool == at))
                self._fail(numbers[over], SHED, "refused")
                pool[over] = -2

    def _fail(self, numbers: NDArray[np.int64], reason: str, outcome: str) -> None:
        """Account for requests without a whole answer."""
        models, regions = self._open.model[numbers], self._open.region[numbers]
        for at in np.unique(models).tolist():
            name = self.platform.models[at].name
            mine = models == at
            for of in np.unique(regions[mine]).tolist():
                found = self.outcomes[name, self._regions[of]]
                _add(found, reason, outcome, int((regions[mine] == of).sum()))
            bucket = (self._open.seconds[numbers[mine]] / self._interval).astype(np.int64)
            bucket = np.minimum(bucket, self._buckets - 1)
            self.series[name].failed += np.bincount(bucket, minlength=self._buckets)
        teams = self._open.team[numbers]
        for at in np.unique(teams).tolist():
            name = self.traffic.teams[at] if at >= 0 else _NO_TEAM
            found = self.teams.setdefault(name, Outcomes())
            _add(found, reason, outcome, int((teams == at).sum()))
        self._open.release(numbers)

    def _finish(self) -> None:
        """Account for the requests that ended in the step."""
        ended = self._engines.finished()
        if not len(ended.number):
            return
        too_long = np.isnan(ended.first_token_seconds)
        if too_long.any():
            self._fail(ended.number[too_long], TOO_LONG, "refused")
        number = ended.number[~too_long]
        arrived = self._open.seconds[number] + self._started
        first = ended.first_token_seconds[~too_long] - arrived + HTTP_SECONDS
        whole = ended.last_token_seconds[~too_long] - arrived + HTTP_SECONDS
        generated, cached = ended.generated[~too_long], ended.cached_tokens[~too_long]
        tpot = np.where(generated > 1, (whole - first) / np.maximum(generated - 1, 1), np.nan)
        keys = self._open.model[number] * len(self._regions) + self._open.region[number]
        cut_off = np.zeros(len(number), np.bool_)
        for key in np.unique(keys).tolist():
            model = self.platform.models[key // len(self._regions)]
            found = self.outcomes[model.name, self._regions[key % len(self._regions)]]
            mine = np.flatnonzero(keys == key)
            cut = whole[mine] > model.timeout_seconds
            cut_off[mine] = cut
            mine = mine[~cut]
            self._answer(model, found, number[mine], first[mine], tpot[mine])
            found.output_tokens += int(generated[mine].sum())
            found.cached_tokens += int(cached[mine].sum())
            self._count_tokens(model, number[mine], generated[mine])
        if cut_off.any():
            self._fail(number[cut_off], TIMEOUT, "cut")
        self._open.release(number[~cut_off])

    def _answer(
        self,
        model: Model,
        found: Outcomes,
        number: NDArray[np.int64],
        first: NDArray[np.float64],
        tpot: NDArray[np.float64],
    ) -> None:
        slo, known = model.slo, ~np.isnan(tpot)
        late = np.zeros(len(number), np.bool_)
        if slo.ttft_p95_ms is not None:
            late = first > slo.ttft_p95_ms / 1000
            found.late_ttft += int(late.sum())
        if slo.tpot_p95_ms is not None:
            slow = known & (tpot > slo.tpot_p95_ms / 1000)
            found.late_tpot += int(slow.sum())
            late |= slow
        found.answered += len(number)
        found.prompt_tokens += int(self._open.prompt_tokens[number].sum())
        found.ttft.add(first)
        found.tpot.add(tpot[known])
        if late.any():
            at = (self._open.seconds[number[late]] / self._interval).astype(np.int64)
            at = np.minimum(at, self._buckets - 1)
            self.series[model.name].late += np.bincount(at, minlength=self._buckets)

    def _count_tokens(
        self, model: Model, number: NDArray[np.int64], generated: NDArray[np.int64]
    ) -> None:
        teams = self._open.team[number]
        for at in np.unique(teams).tolist():
            mine = teams == at
            name = self.traffic.teams[at] if at >= 0 else _NO_TEAM
            tokens = int(self._open.prompt_tokens[number[mine]].sum() + generated[mine].sum())
            self.team_tokens[model.name, name] += tokens
            self.teams.setdefault(name, Outcomes()).answered += int(mine.sum())

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
                found[machine.accelerator, node.shape.provisioning] += machine.chips
        self.chips.append((self.seconds, found))

    def _nodes(self) -> Iterator[Node]:
        for cluster in self._clusters.values():
            yield from cluster.nodes.values()

    def _count_missing(self, step: float) -> None:
        for each in self.workloads:
            for replica in each.present:
                if replica.engine is not None:
                    continue
                if replica.nodes:
                    reason = "image, weights, compilation"
                elif self._clusters[each.workload.region].is_creating(replica.pods[0]):
                    reason = "node"
                else:
                    reason = "no capacity"
                each.missing[reason] += step

    def _ended_node(self, node: Node) -> None:
        self._bill(node, min(self.now, self._started + self.traffic.seconds))

    def _bill(self, node: Node, until: float) -> None:
        """Add the time of a node from its request until its end."""
        machine = node.shape.machine
        if machine.accelerator is None or until <= node.requested:
            return
        region = node.zone.rpartition("-")[0]
        provisioning = node.shape.provisioning
        key = Bought(node.owner, region, provisioning, machine.name, machine.accelerator)
        self.machines[key] += until - node.requested


def _keeping(replica: Replica) -> tuple[bool, bool, float]:
    """Return the order in which replicas are removed, as a ReplicaSet does: the newest first."""
    return replica.engine is not None, bool(replica.nodes), -replica.created


def _add(found: Outcomes, reason: str, outcome: str, count: int) -> None:
    found.reasons[reason] += count
    setattr(found, outcome, getattr(found, outcome) + count)


def usd_per_hour(bought: Bought) -> float | None:
    """Return the list price of a machine, as `cost` has it; None without a published price."""
    found = machine_price(bought.accelerator, bought.region, bought.provisioning, bought.machine)
    return None if found is None else found.usd_per_hour


def _split(live: list[tuple[int, float]], left: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a pool for each request, in the proportion of the shares."""
    if len(live) == 1:
        return np.full(len(left), live[0][0], np.int64)
    shares = np.cumsum([share for _, share in live])
    place = (left * 0.6180339887498949) % 1.0 * shares[-1]
    chosen = np.searchsorted(shares, place, side="right")
    return np.array([index for index, _ in live], np.int64)[np.minimum(chosen, len(live) - 1)]


def _pools(platform: Platform) -> list[tuple[str, str]]:
    found = [(each.pool, each.region) for each in platform.workloads]
    return list(dict.fromkeys(found))


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
