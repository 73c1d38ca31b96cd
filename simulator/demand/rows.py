"""Traffic from a file with a request per line, read again for each pass, in bounded memory."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import one_of
from simulator.demand.arrivals import MOST, Arrivals, arrivals_of
from simulator.demand.ordering import sorted_within
from simulator.demand.pattern import MOST_TOKENS

BACK_SECONDS = 60.0
"""Time by which a line may be earlier than one before it; requests are sorted."""
GAP_SECONDS = 86_400.0
"""Longest time without a request: a longer one is a hole in the data."""
MOST_NAMES = 30_000
"""Most models, teams or regions."""

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Row:
    """A request as its line states it."""

    seconds: float
    """Time on the file's own clock."""
    prompt_tokens: int
    output_tokens: int
    model: str = ""
    team: str = ""
    region: str = ""
    prefix: int = -1
    prefix_tokens: int = 0


@dataclass(frozen=True)
class Names:
    """How names of models in a file become names of the platform."""

    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names by those in the file; names that are missing are refused. Empty: they stay."""
    only: str | None = None
    """The model of all requests."""

    def of(self, model: str, where: str) -> str:
        """Return the platform's name of a model.

        Raises:
            InputError: The model is not among the renamed ones, or the file has no names.
        """
        if self.only is not None:
            return self.only
        if not model:
            raise InputError(where, "has no names of models: must be given the name of one")
        if not self.renamed:
            return model
        if model not in self.renamed:
            raise one_of(where, model, self.renamed)
        return self.renamed[model]


class Recent(Generic[Value]):
    """The values of the last keys put or found, at least half of `most`, in bounded memory."""

    def __init__(self, most: int) -> None:
        self._half = most // 2
        self._new: dict[int | str, Value] = {}
        self._old: dict[int | str, Value] = {}

    def get(self, key: int | str) -> Value | None:
        """Return the value of a key; None if it is unknown or forgotten."""
        found = self._new.get(key)
        if found is None:
            found = self._old.pop(key, None)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: int | str, value: Value) -> None:
        """Remember a value."""
        if len(self._new) >= self._half:
            self._old, self._new = self._new, {}
        self._new[key] = value


class FileTraffic(ABC):
    """Requests of a file."""

    def __init__(self, path: Path, names: Names) -> None:
        """Read the whole file once, to check it and to know its names and its length.

        Raises:
            InputError: A line breaks a rule, or there is no request.
        """
        self.path = path
        self._names = names
        self._models = _Index("model", path)
        self._teams = _Index("team", path)
        self._regions = _Index("region", path)
        self.left_out = 0
        """Lines without tokens, such as failed requests."""
        self._start = math.inf
        last = -math.inf
        for _, row in self._checked():
            self._start, last = min(self._start, row.seconds), max(last, row.seconds)
            self._models.number(self._names.of(row.model, f"{path}: model"))
            self._teams.number(row.team)
            self._regions.number(row.region)
        if math.isinf(self._start):
            raise InputError(str(path), "must have requests with tokens, got none")
        self.seconds = last - self._start

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models."""
        return self._models.names

    @property
    def teams(self) -> tuple[str, ...]:
        """Names of the teams."""
        return self._teams.names

    @property
    def regions(self) -> tuple[str, ...]:
        """Names of the clients' regions."""
        return self._regions.names

    @abstractmethod
    def rows(self) -> Iterator[tuple[str, Row]]:
        """Yield where each line is, as `FILE:LINE`, and its request, in the order of the file.

        Raises:
            InputError: A line is not of this form.
        """

    def chunks(self, most: int = MOST) -> Iterator[Arrivals]:
        """Yield all requests in the order of arrival, in chunks of at most `most`.

        Memory is bounded by twice as many, also where more come within `BACK_SECONDS`: then they
        wait in files.
        """
        ready: list[tuple[float, Row]] = []
        for item in sorted_within(
            ((row.seconds - self._start, row) for _, row in self._checked()),
            BACK_SECONDS,
            2 * most,
        ):
            ready.append(item)
            if len(ready) == most:
                yield self._arrivals(ready)
                ready = []
        if ready:
            yield self._arrivals(ready)

    def _arrivals(self, rows: list[tuple[float, Row]]) -> Arrivals:
        only: Callable[[str], str] = lambda name: self._names.of(name, "")  # noqa: E731
        columns = (
            [at for at, _ in rows],
            [self._models.number(only(row.model)) for _, row in rows],
            [self._teams.number(row.team) for _, row in rows],
            [self._regions.number(row.region) for _, row in rows],
            [row.prompt_tokens for _, row in rows],
            [row.output_tokens for _, row in rows],
            [row.prefix for _, row in rows],
            [row.prefix_tokens for _, row in rows],
        )
        return arrivals_of(*columns)

    def _checked(self) -> Iterator[tuple[str, Row]]:
        latest: float | None = None
        self.left_out = 0
        for where, row in self.rows():
            _check_tokens(where, "prompt tokens", row.prompt_tokens)
            _check_tokens(where, "output tokens", row.output_tokens)
            if not math.isfinite(row.seconds):
                raise InputError(f"{where}: time", "must be finite", row.seconds)
            if latest is not None:
                _check_times(where, row.seconds - latest)
            latest = row.seconds if latest is None else max(latest, row.seconds)
            if row.prompt_tokens and row.output_tokens:
                yield where, row
            else:
                self.left_out += 1


class _Index:
    """Numbers of names, in the order of their first appearance."""

    def __init__(self, what: str, path: Path) -> None:
        self._what = what
        self._path = path
        self._numbers: dict[str, int] = {"": -1}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name in self._numbers if name)

    def number(self, name: str) -> int:
        found = self._numbers.get(name)
        if found is None:
            found = self._numbers[name] = len(self._numbers) - 1
            if found >= MOST_NAMES:
                rule = f"must have at most {MOST_NAMES:,} names"
                raise InputError(f"{self._path}: {self._what}", rule)
        return found


def _check_tokens(where: str, field_name: str, value: int) -> None:
    if not 0 <= value <= MOST_TOKENS:
        raise InputError(f"{where}: {field_name}", f"must be 0 to {MOST_TOKENS}", value)


def _check_times(where: str, later: float) -> None:
    if later < -BACK_SECONDS:
        rule = f"must not be more than {BACK_SECONDS:g} s before an earlier line"
        raise InputError(f"{where}: time", rule, f"{-later:.3f} s before")
    if later > GAP_SECONDS:
        rule = f"must not be more than {GAP_SECONDS / 3600:g} h after the line before"
        raise InputError(f"{where}: time", rule, f"{later / 3600:.1f} h after")
