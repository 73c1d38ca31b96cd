"""What becomes of requests and replicas, in bounded memory."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simulator.engine.replay import HTTP_SECONDS
from simulator.engine.stepped import Finished
from simulator.rehearsal.description import Model
from simulator.rehearsal.fallbacks import durations

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]

PERCENTILE = 0.95
TOO_LONG, TIMEOUT = "longer than the context", "timeout"
NO_TEAM = "no team"
_LOW, _RATIO, _BINS = 1e-3, 1.02, 1000
"""Histogram of seconds: bins from a millisecond, each 2 percent wider than the one before."""


def bin_of(seconds: Floats) -> Numbers:
    """Return the bin of each duration."""
    at = np.log(np.maximum(seconds, _LOW) / _LOW) / np.log(_RATIO)
    return np.minimum(at.astype(np.int64), _BINS - 1)


@dataclass
class Histogram:
    """Durations in bins of 2 percent."""

    counts: Numbers = field(default_factory=lambda: np.zeros(_BINS, np.int64))

    def quantile(self, share: float) -> float | None:
        """Return a quantile in seconds, to 2 percent; None without durations."""
        whole = int(self.counts.sum())
        if not whole:
            return None
        at = int(np.searchsorted(np.cumsum(self.counts), share * whole, side="left"))
        return float(_LOW * _RATIO ** (at + 0.5))


@dataclass
class Outcomes:
    """Requests of one model in one region, by outcome."""

    sent: int = 0
    answered: int = 0
    """Answered by engines."""
    by_fallback: int = 0
    """Answered by the fallback of the model, in the times of `fallbacks.durations`."""
    refused: int = 0
    """Refused at once: no replica, a limit, saturation, or more tokens than the context."""
    cut: int = 0
    """Cut off by the gateway's timeout."""
    lost: int = 0
    """Lost with their replica."""
    late_ttft: int = 0
    """Answered later than the objective for the first token."""
    late_tpot: int = 0
    """Answered slower than the objective for the tokens after it."""
    prompt_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    ttft: Histogram = field(default_factory=Histogram)
    tpot: Histogram = field(default_factory=Histogram)
    reasons: Counter[str] = field(default_factory=Counter[str])
    """Requests without a whole answer, by reason."""

    @property
    def failed(self) -> int:
        """Requests without a whole answer."""
        return self.refused + self.cut + self.lost

    @property
    def answers(self) -> int:
        """Whole answers, of engines and of the fallback, which objectives count."""
        return self.answered + self.by_fallback

    def plus(self, other: "Outcomes") -> "Outcomes":
        """Return the sum of two."""
        made = Outcomes()
        for name in _COUNTS:
            setattr(made, name, getattr(self, name) + getattr(other, name))
        made.ttft.counts = self.ttft.counts + other.ttft.counts
        made.tpot.counts = self.tpot.counts + other.tpot.counts
        made.reasons = self.reasons + other.reasons
        return made


_COUNTS = (
    "sent", "answered", "by_fallback", "refused", "cut", "lost", "late_ttft", "late_tpot",
    "prompt_tokens", "output_tokens", "cached_tokens",
)  # fmt: skip


class Open:
    """Requests that have not ended, by a number that is used again."""

    _ARRAYS = ("seconds", "key", "team", "prompt_tokens", "output_tokens", "_is_running")

    def __init__(self) -> None:
        self._size = 0
        self._free = np.zeros(0, np.int64)
        self._is_running = np.zeros(0, np.bool_)
        self.seconds = np.zeros(0)
        """Times of arrival, since the start of the traffic."""
        self.key = np.zeros(0, np.int64)
        """See `Tally.key`."""
        self.team = np.zeros(0, np.int64)
        self.prompt_tokens = np.zeros(0, np.int64)
        self.output_tokens = np.zeros(0, np.int64)

    def take(self, count: int) -> Numbers:
        """Return numbers for new requests."""
        if count > len(self._free):
            more = max(count - len(self._free), self._size, 1024)
            self._free = np.concatenate((self._free, np.arange(self._size, self._size + more)))
            self._size += more
            for name in self._ARRAYS:
                old = getattr(self, name)
                setattr(self, name, np.concatenate((old, np.zeros(more, old.dtype))))
        taken, self._free = self._free[:count], self._free[count:]
        self._is_running[taken] = True
        return taken

    def end(self, numbers: Numbers) -> None:
        """Record that requests no longer run; their numbers stay theirs until `release`."""
        self._is_running[numbers] = False

    def release(self, numbers: Numbers) -> None:
        """Make numbers available again."""
        self._is_running[numbers] = False
        self._free = np.concatenate((self._free, numbers))

    def running(self) -> Numbers:
        """Return the numbers of requests that run."""
        return np.flatnonzero(self._is_running)

    @property
    def count(self) -> int:
        """Number of open requests."""
        return self._size - len(self._free)


@dataclass
class Series:
    """Counts of one model by interval of arrival."""

    sent: Numbers
    failed: Numbers
    late: Numbers


class Tally:
    """What becomes of the requests of a rehearsal.

    Args:
        models: Models of the platform.
        regions: Names of its regions.
        teams: Names of the teams.
        interval: Length of an interval of the series, in seconds.
        seconds: Length of the traffic.
    """

    def __init__(
        self,
        models: Sequence[Model],
        regions: Sequence[str],
        teams: Sequence[str],
        interval: float,
        seconds: float,
    ) -> None:
        self._regions = len(regions)
        self.keys = len(models) * len(regions)
        self.open = Open()
        self.interval = interval
        self._buckets = int(np.ceil(seconds / interval)) + 1
        self._names = (*teams, NO_TEAM)  # -1 is the last one
        self._ttft = np.zeros((self.keys, _BINS), np.int64)
        self._tpot = np.zeros((self.keys, _BINS), np.int64)
        self._sums = {name: np.zeros(self.keys, np.int64) for name in _COUNTS}
        self._reasons: dict[str, Numbers] = {}
        self._team_answered = np.zeros(len(self._names), np.int64)
        self._team_reasons: dict[str, tuple[str, Numbers]] = {}
        self._team_tokens = np.zeros((len(models), len(self._names)), np.int64)
        self._counts = np.zeros((3, len(models), self._buckets), np.int64)
        self._models = models
        self._places = [(model.name, region) for model in models for region in regions]
        self.timeout = np.array([model.timeout_seconds for model in models])
        self._fallback_timeout = np.array(
            [
                model.timeout_seconds
                if model.fallback is None
                else min(model.timeout_seconds, model.fallback.timeout_seconds)
                for model in models
            ]
        )
        self._fallback_answers = 0
        targets = [(model.slo.ttft_p95_ms, model.slo.tpot_p95_ms) for model in models]
        self._slo = np.array(
            [[np.inf if ms is None else ms / 1000 for ms in pair] for pair in targets]
        ).reshape(-1, 2)
        self.series = {model.name: Series(*self._counts[:, at]) for at, model in enumerate(models)}

    def key(self, model: Numbers, region: Numbers) -> Numbers:
        """Return the key of a model in a region, from their indices."""
        return model * self._regions + region

    def model_of(self, key: Numbers) -> Numbers:
        """Return the index of the model of a key."""
        return key // self._regions

    def _bucket(self, seconds: Floats) -> Numbers:
        return np.minimum((seconds / self.interval).astype(np.int64), self._buckets - 1)

    def _by_key(self, key: Numbers, weights: Numbers | None = None) -> Numbers:
        return np.bincount(key, weights, self.keys).astype(np.int64)

    def arrive(self, seconds: Floats, key: Numbers) -> None:
        """Count requests that were sent."""
        self._sums["sent"] += self._by_key(key)
        np.add.at(self._counts[0], (self.model_of(key), self._bucket(seconds)), 1)

    def fail(self, numbers: Numbers, reason: str, outcome: str) -> None:
        """Count requests without a whole answer, and release their numbers.

        Args:
            numbers: Their numbers.
            reason: Why.
            outcome: `refused`, `cut` or `lost`.
        """
        if not len(numbers):
            return
        key = self.open.key[numbers]
        found = self._by_key(key)
        self._sums[outcome] += found
        self._reasons[reason] = self._reasons.get(reason, 0) + found
        seconds = self.open.seconds[numbers]
        np.add.at(self._counts[1], (self.model_of(key), self._bucket(seconds)), 1)
        _, before = self._team_reasons.get(reason, (outcome, np.zeros(len(self._names), np.int64)))
        np.add.at(before, self.open.team[numbers], 1)
        self._team_reasons[reason] = outcome, before
        self.open.release(numbers)

    def fall_back(self, numbers: Numbers) -> None:
        """Count requests that a fallback answers, and release their numbers."""
        if not len(numbers):
            return
        first, between = durations(self._fallback_answers, len(numbers))
        self._fallback_answers += len(numbers)
        generated = self.open.output_tokens[numbers]
        last = first + between * np.maximum(generated - 1, 0)
        is_cut = last > self._fallback_timeout[self.model_of(self.open.key[numbers])]
        self.fail(numbers[is_cut], TIMEOUT, "cut")
        numbers, generated = numbers[~is_cut], generated[~is_cut]
        self._sums["by_fallback"] += self._by_key(self.open.key[numbers])
        self._judge(numbers, first[~is_cut], last[~is_cut], generated)
        self.open.release(numbers)

    def finish(self, ended: Finished, started: float) -> None:
        """Count requests that ended on engines, and release their numbers.

        Args:
            ended: The requests.
            started: Time at which the traffic starts, on the engines' clock.
        """
        if not len(ended.number):
            return
        number, first, last = ended.number, ended.first_token_seconds, ended.last_token_seconds
        generated, cached = ended.generated, ended.cached_tokens
        too_long = np.isnan(first)
        if too_long.any():
            self.fail(number[too_long], TOO_LONG, "refused")
            number, generated, cached = (each[~too_long] for each in (number, generated, cached))
            first, last = first[~too_long], last[~too_long]
        since = self.open.seconds[number] + (started - HTTP_SECONDS)
        first, last = first - since, last - since
        is_cut = last > self.timeout[self.model_of(self.open.key[number])]
        if is_cut.any():
            self.fail(number[is_cut], TIMEOUT, "cut")
            number, generated, cached = (each[~is_cut] for each in (number, generated, cached))
            first, last = first[~is_cut], last[~is_cut]
        self._answer(number, first, last, generated, cached)
        self.open.release(number)

    def _answer(
        self, number: Numbers, first: Floats, last: Floats, generated: Numbers, cached: Numbers
    ) -> None:
        key, sums = self.open.key[number], self._sums
        prompts = self.open.prompt_tokens[number]
        sums["answered"] += self._by_key(key)
        sums["prompt_tokens"] += self._by_key(key, prompts)
        sums["output_tokens"] += self._by_key(key, generated)
        sums["cached_tokens"] += self._by_key(key, cached)
        self._judge(number, first, last, generated)
        tokens = prompts + generated
        np.add.at(self._team_tokens, (self.model_of(key), self.open.team[number]), tokens)

    def _judge(self, number: Numbers, first: Floats, last: Floats, generated: Numbers) -> None:
        """Count whole answers against the objectives, and for their teams."""
        key, sums = self.open.key[number], self._sums
        model = self.model_of(key)
        np.add.at(self._ttft, (key, bin_of(first)), 1)
        several = generated > 1
        tpot = (last - first)[several] / (generated[several] - 1)
        np.add.at(self._tpot, (key[several], bin_of(tpot)), 1)
        late = first > self._slo[model, 0]
        sums["late_ttft"] += self._by_key(key[late])
        slow = tpot > self._slo[model[several], 1]
        sums["late_tpot"] += self._by_key(key[several][slow])
        late[np.flatnonzero(several)[slow]] = True
        if late.any():
            bucket = self._bucket(self.open.seconds[number[late]])
            np.add.at(self._counts[2], (model[late], bucket), 1)
        np.add.at(self._team_answered, self.open.team[number], 1)

    # -- results

    @property
    def sent(self) -> int:
        """Requests so far."""
        return int(self._sums["sent"].sum())

    @property
    def failed(self) -> int:
        """Requests without a whole answer so far."""
        return sum(int(self._sums[name].sum()) for name in ("refused", "cut", "lost"))

    @property
    def outcomes(self) -> "dict[tuple[str, str], Outcomes]":
        """Outcomes by model and region of the pool; of refused requests, the client's nearest."""
        found: dict[tuple[str, str], Outcomes] = {}
        for at, place in enumerate(self._places):
            reasons = {name: int(counts[at]) for name, counts in self._reasons.items()}
            found[place] = Outcomes(
                **{name: int(self._sums[name][at]) for name in _COUNTS},
                ttft=Histogram(self._ttft[at]),
                tpot=Histogram(self._tpot[at]),
                reasons=Counter({name: count for name, count in reasons.items() if count}),
            )
        return found

    @property
    def teams(self) -> "dict[str, Outcomes]":
        """Answered and failed requests by team, of teams with requests."""
        found: dict[str, Outcomes] = {}
        for at, name in enumerate(self._names):
            one = Outcomes(answered=int(self._team_answered[at]))
            for reason, (outcome, counts) in self._team_reasons.items():
                if count := int(counts[at]):
                    one.reasons[reason] = count
                    setattr(one, outcome, getattr(one, outcome) + count)
            if one.answered or one.reasons:
                found[name] = one
        return found

    @property
    def team_tokens(self) -> Counter[tuple[str, str]]:
        """Tokens of answered requests, by model and team."""
        return Counter(
            {
                (self._models[model].name, self._names[team]): int(count)
                for (model, team), count in np.ndenumerate(self._team_tokens)
                if count
            }
        )


@dataclass(frozen=True)
class Sample:
    """The state of a workload at one time."""

    seconds: float
    ready: int
    starting: int
    """Placed on a node, but not ready."""
    pending: int
    """Without a node."""
    wanted: int
    running: int
    """Requests in the batches of its replicas."""
    waiting: int
    """Requests in their queues."""
