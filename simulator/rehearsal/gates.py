"""Where arriving requests go: to a region, past the limits of teams, to a pool or its fallback.

Decisions hold for the requests of one step. Those of a fleet gateway are the twin's functions.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gke_inference.catalogue.nearness import by_nearness
from simulator.demand.arrivals import Arrivals, Traffic
from simulator.engine.stepped import Load
from simulator.rehearsal.description import Fallback, Limit, Model, Platform, Team
from simulator.rehearsal.events import Log
from simulator.rehearsal.routing import Ejections, TeamMeter, saturation
from twin.cluster.gateway.translation.fleet import next_kept, shares

Numbers = NDArray[np.int64]

NO_REPLICA, SHED, NO_PROGRAM = "no replica", "saturated", "no program of the gateway"
TEAM_LIMIT, TEAM_MONTH, TEAM_MODEL = "limit of the team", "month of the team", "model of the team"
UNSERVED, FALLBACK, REFUSED, CLOSED = -1, -2, -3, -4
"""In place of a pool: no replica; the fallback of the model; refused for another reason; a gateway
that lacks a program."""
_MILLION = 1e6
_EVEN = 0.6180339887498949
"""Multiples of the golden ratio, modulo 1, are spread evenly, whichever of them are taken."""


class Gates:
    """The fronts and gateways of a platform.

    Args:
        platform: The platform.
        traffic: Its requests.
        log: Events.
    """

    def __init__(self, platform: Platform, traffic: Traffic, log: Log) -> None:
        self._platform = platform
        self._log = log
        self._front = platform.front
        self.pools = list(dict.fromkeys((one.pool, one.region) for one in platform.workloads))
        """Pools of the gateway, by name and region."""
        self._numbers = {pool: number for number, pool in enumerate(self.pools)}
        self.regions = tuple(region.name for region in platform.regions)
        self._at = {name: at for at, name in enumerate(self.regions)}
        self._nearest = np.array(
            [self._at[by_nearness(name, self.regions)[0]] for name in traffic.regions] or [0],
            np.int64,
        )
        self._spread = 0
        self._served = [
            tuple(
                name
                for name in self.regions
                if any((version, name) in self._numbers for version, _ in model.versions)
            )
            for model in platform.models
        ]
        self._versions_of = {model.name: model.versions for model in platform.models}
        self._divided: Counter[tuple[int, ...]] = Counter()
        """Requests so far that were divided among the same numbers."""
        self._ordered: dict[tuple[int, int], tuple[str, ...]] = {}
        self._ejections = Ejections(platform.front, len(self.regions))
        self._kept: dict[tuple[str, str], float] = {}
        teams = [platform.teams.get(name, Team()) for name in traffic.teams]
        self._meters = {
            (at, self._at[region]): TeamMeter(limit)
            for at, team in enumerate(teams)
            for region, limit in team.limits.items()
            if region in self._at and limit != Limit()
        }
        self._may = np.array(
            [
                [team.models is None or model.name in team.models for model in platform.models]
                for team in [*teams, Team()]  # -1, requests without a team, is the last one
            ]
        )
        self._prices = np.array([model.usd_per_million for model in platform.models]) / _MILLION
        self._sheddable = np.array([*(team.is_sheddable for team in teams), False])
        self.fallback_usd: defaultdict[tuple[str, str], float] = defaultdict(float)
        """What fallbacks cost, by model and region."""

    @property
    def reads_load(self) -> bool:
        """Whether a decision depends on the load of the replicas."""
        fallbacks = any(model.fallback is not None for model in self._platform.models)
        return fallbacks or bool(self._sheddable.any())

    def divide(self, model: str, versions: tuple[tuple[str, float], ...]) -> None:
        """Divide the requests of a model among its versions from now on."""
        self._versions_of[model] = versions

    def clients(self, part: Arrivals) -> Numbers:
        """Return the region nearest to each client; those of unknown clients alternate."""
        found = self._nearest[np.maximum(part.region, 0)]
        unknown = np.flatnonzero(part.region < 0)
        found[unknown] = (self._spread + np.arange(len(unknown))) % len(self.regions)
        self._spread += len(unknown)
        return found

    def route(
        self,
        part: Arrivals,
        model: Numbers,
        client: Numbers,
        lost: frozenset[str],
        serving: Mapping[int, Sequence[int]],
        load: Load | None,
        now: float,
        closed: frozenset[str] = frozenset(),
    ) -> tuple[Numbers, Numbers]:
        """Return the pool and the region of each request.

        Args:
            part: The requests.
            model: Indices of their models.
            client: Indices of the regions nearest to their clients.
            lost: Regions that are down.
            serving: Replicas that are ready, by pool.
            load: Load of the replicas, if `reads_load`.
            now: Current time.
            closed: Regions whose gateway lacks a program.
        """
        pool = np.full(len(part), UNSERVED, np.int64)
        region = client.copy()
        overflowing = self._overflowing(serving, load)
        for key, mine in _groups(model * len(self.regions) + client):
            at, of = divmod(key, len(self.regions))
            if self._front.overflow_percent is not None:
                self._spill(at, of, mine, pool, region, serving)
            else:
                self._choose(
                    at, of, mine, pool, region, lost, closed, serving, overflowing, part, now
                )
        return pool, region

    def _choose(
        self,
        at: int,
        client: int,
        mine: Numbers,
        pool: Numbers,
        region: Numbers,
        lost: frozenset[str],
        closed: frozenset[str],
        serving: Mapping[int, Sequence[int]],
        overflowing: frozenset[int],
        part: Arrivals,
        now: float,
    ) -> None:
        """Choose the first region that answers for requests of one model and client region."""
        model, left = self._platform.models[at], mine
        for name in self._reachable(at, client, now):
            if not len(left):
                return
            region[left] = self._at[name]
            if name in lost:
                if not self._front.is_global:
                    return
                # a connection that fails is tried in the next region, and counts as a failure
                self._count(name, len(left), now)
                continue
            live = [
                (number, share) for number, share in self._versions(model, name) if serving[number]
            ]
            if name in closed:
                live = []
                pool[left] = CLOSED
            elif not live or all(number in overflowing for number, _ in live):
                left = self._fall_back(model, name, left, pool, part)
                if not len(left):
                    return
            if live:
                self._ejections.answered(name)
                chosen = self._split(self._versions(model, name), left)
                # a weighted backend without endpoints answers its share with an error
                served = np.isin(chosen, [number for number, _ in live])
                pool[left] = np.where(served, chosen, UNSERVED)
                return
            refused = len(left)
            if self._front.is_global:
                refused = min(refused, self._ejections.room(name))
            if not self._count(name, refused, now):
                return
            left = left[refused:]
            pool[left] = UNSERVED

    def _count(self, region: str, failures: int, now: float) -> bool:
        """Count failures in a row of a region; return whether it is ejected now."""
        is_ejected = self._ejections.failed(region, failures, now)
        if is_ejected:
            message = f"{self._front.failures} failures in a row: ejected"
            self._log.add(now, "front.ejected", region, message)
        return is_ejected

    def _versions(self, model: Model, region: str) -> list[tuple[int, float]]:
        """Return the pools of a model in a region, with their shares."""
        return [
            (self._numbers[version, region], share)
            for version, share in self._versions_of[model.name]
            if share > 0 and (version, region) in self._numbers
        ]

    def _nearest_first(self, at: int, client: int) -> tuple[str, ...]:
        """Return the regions that serve a model, the nearest to a client first."""
        found = self._ordered.get((at, client))
        if found is None:
            found = tuple(by_nearness(self.regions[client], self._served[at]))
            self._ordered[at, client] = found
        return found

    def _reachable(self, at: int, client: int, now: float) -> Sequence[str]:
        """Return the regions that serve a model, nearest first, without ejected ones."""
        ordered = self._nearest_first(at, client)
        if not self._front.is_global:
            return ordered[:1]
        return [name for name in ordered if not self._ejections.is_out(name, now)] or ordered

    # -- a fleet gateway

    def balance(self, serving: Mapping[int, Sequence[int]], load: Load) -> None:
        """Update the shares of requests that regions keep at a fleet gateway."""
        percent = self._front.overflow_percent
        if percent is None:
            return
        for number, pool in enumerate(self.pools):
            usage = load.kv_usage[np.isin(load.replica, serving[number])]
            used = float(usage.mean()) if len(usage) else None
            self._kept[pool] = next_kept(self._kept.get(pool, 1.0), used, percent)

    def _spill(
        self,
        at: int,
        client: int,
        mine: Numbers,
        pool: Numbers,
        region: Numbers,
        serving: Mapping[int, Sequence[int]],
    ) -> None:
        """Divide requests of one model among the regions with a ready replica."""
        model = self._platform.models[at]
        divided = [each for each in self._versions_of[model.name] if each[1] > 0]
        chosen = self._split([(n, share) for n, (_, share) in enumerate(divided)], mine)
        for n, (version, _) in enumerate(divided):
            own = mine[chosen == n]
            ready = [
                name
                for name in self._nearest_first(at, client)
                if serving.get(self._numbers.get((version, name), UNSERVED))
            ]
            if not len(own) or not ready:
                continue
            kept = {name: self._kept.get((version, name), 1.0) for name in ready}
            parts = [(self._numbers[version, name], float(part)) for name, part in
                     shares(ready, kept).items()]  # fmt: skip
            pool[own] = self._split(parts, own)
            of = np.array([self._at[name] for _, name in self.pools], np.int64)
            region[own] = of[pool[own]]

    def _split(self, live: Sequence[tuple[int, float]], left: Numbers) -> Numbers:
        """Return a number for each request, in the proportion of the shares."""
        if len(live) == 1:
            return np.full(len(left), live[0][0], np.int64)
        limits = np.cumsum([share for _, share in live])
        numbers = tuple(number for number, _ in live)
        before = self._divided[numbers]  # a step may have fewer requests than there are parts
        self._divided[numbers] += len(left)
        place = ((before + np.arange(len(left))) * _EVEN) % 1.0 * limits[-1]
        chosen: NDArray[np.intp] = np.searchsorted(limits, place, side="right")
        return np.array(numbers, np.int64)[np.minimum(chosen, len(live) - 1)]

    # -- the fallbacks of pools

    def _overflowing(
        self, serving: Mapping[int, Sequence[int]], load: Load | None
    ) -> frozenset[int]:
        """Return the pools whose fallback gets requests although engines are ready."""
        found: set[int] = set()
        for model in self._platform.models:
            if model.fallback is None or load is None:
                continue
            for name in self.regions:
                number = self._numbers.get((model.name, name))
                if number is None or not serving[number]:
                    continue
                queues = load.waiting[np.isin(load.replica, serving[number])]
                if len(queues) and int(queues.min()) >= model.fallback.after_queue:
                    found.add(number)
        return frozenset(found)

    def _fall_back(
        self, model: Model, region: str, mine: Numbers, pool: Numbers, part: Arrivals
    ) -> Numbers:
        """Send requests to the fallback of a model while its budget lasts; return the others."""
        fallback = model.fallback
        if fallback is None:
            return mine
        spent = self.fallback_usd[model.name, region]
        usd = _usd(fallback, part, mine).cumsum() + spent
        count = int(np.searchsorted(usd, fallback.monthly_usd, side="right"))
        if count:
            self.fallback_usd[model.name, region] = float(usd[count - 1])
            pool[mine[:count]] = FALLBACK
        return mine[count:]

    # -- teams

    def check(
        self, part: Arrivals, model: Numbers, region: Numbers, pool: Numbers
    ) -> Iterator[tuple[str, Numbers]]:
        """Refuse what teams may not send; yield the reasons and the positions of the requests."""
        team = part.team.astype(np.int64)
        forbidden = np.flatnonzero(~self._may[team, model] & (pool > REFUSED) & (pool != UNSERVED))
        if len(forbidden):
            self._refuse(forbidden, part, model, region, pool)
            yield TEAM_MODEL, forbidden
        if not self._meters:
            return
        for key, mine in _groups(team * len(self.regions) + region):
            meter = self._meters.get(divmod(key, len(self.regions)))
            if meter is None:
                continue
            sent = mine[pool[mine] > REFUSED]
            sent = sent[pool[sent] != UNSERVED]
            tokens = part.prompt_tokens[sent].astype(np.int64) + part.output_tokens[sent]
            usd = self._prices[model[sent], 0] * part.prompt_tokens[sent]
            usd += self._prices[model[sent], 1] * part.output_tokens[sent]
            within, in_month = meter.admit(part.seconds[sent], tokens, usd)
            for reason, over in ((TEAM_LIMIT, ~within & in_month), (TEAM_MONTH, ~in_month)):
                if over.any():
                    self._refuse(sent[over], part, model, region, pool)
                    yield reason, sent[over]

    def _refuse(
        self, mine: Numbers, part: Arrivals, model: Numbers, region: Numbers, pool: Numbers
    ) -> None:
        """Refuse requests; those for a fallback have not used its budget."""
        to_fallback = mine[pool[mine] == FALLBACK]
        for key, own in _groups(model[to_fallback] * len(self.regions) + region[to_fallback]):
            at, of = divmod(key, len(self.regions))
            one = self._platform.models[at]
            if one.fallback is not None:
                usd = float(_usd(one.fallback, part, to_fallback[own]).sum())
                self.fallback_usd[one.name, self.regions[of]] -= usd
        pool[mine] = REFUSED

    def shed(
        self, part: Arrivals, pool: Numbers, serving: Mapping[int, Sequence[int]], load: Load | None
    ) -> Numbers:
        """Refuse requests of sheddable teams to saturated pools; return their positions."""
        may = self._sheddable[part.team] & (pool >= 0)
        if load is None or not may.any():
            return np.zeros(0, np.int64)
        found: list[Numbers] = []
        for at in np.unique(pool[may]).tolist():
            own = np.isin(load.replica, serving[at])
            if saturation(load.waiting[own], load.kv_usage[own]) >= 1:
                found.append(np.flatnonzero(may & (pool == at)))
        over = np.concatenate(found) if found else np.zeros(0, np.int64)
        pool[over] = REFUSED
        return over


def _usd(fallback: Fallback, part: Arrivals, mine: Numbers) -> NDArray[np.float64]:
    """Return the price of each request at a backend."""
    given = part.prompt_tokens[mine] * (fallback.input_usd_per_million / _MILLION)
    return given + part.output_tokens[mine] * (fallback.output_usd_per_million / _MILLION)


def _groups(keys: Numbers) -> Iterator[tuple[int, Numbers]]:
    """Yield each key and the positions that have it, ascending."""
    if not len(keys):
        return
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
    for first, end in zip(starts.tolist(), [*starts[1:].tolist(), len(order)], strict=True):
        yield int(ordered[first]), order[first:end]
