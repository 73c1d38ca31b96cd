"""The own form of traffic: rates of models, their curve over the day, and a mix of requests.

models:
  chat: {requests_per_second: 20, context: 32768}
hours: [1, 1, 1, 1, 1, 1, 1, 2, 3, 4, 5, 5, 4, 5, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1]
kinds:
  questions: {share: 1, prompt_tokens: 500, output_tokens: 200}
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import RULE, Document
from gke_inference.catalogue.user_yaml import user_file
from gke_inference.settings import Settings

QUANTILES = 65_536
"""Entries of the table of a distribution of lengths: one for each 16-bit random number."""
MOST_TOKENS = 100_000_000
"""Upper bound of a length in tokens, which keeps every sum of two in 32 bits."""
MOST_BYTES = 1_000_000
"""Upper bound of a file in this form."""

_Share = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Tokens = Annotated[int, Field(ge=1, le=MOST_TOKENS)]


Percentile = tuple[float, int]
"""A percentage and the length in tokens that so many percent do not exceed."""


def _checked(lengths: int | tuple[Percentile, ...]) -> int | tuple[Percentile, ...]:
    if isinstance(lengths, int):
        tokens: list[int] = [lengths]
    else:
        percents, tokens = [each for each, _ in lengths], [each for _, each in lengths]
        ends = (percents[0], percents[-1]) == (0, 100) if percents else False
        if not ends or percents != sorted(set(percents)) or tokens != sorted(tokens):
            rule = "must have percentiles from 0 to 100, rising, with lengths that do not fall"
            raise PydanticCustomError(RULE, rule)
    if tokens[0] < 1 or tokens[-1] > MOST_TOKENS:
        rule = "must be 1 to {most} tokens"
        raise PydanticCustomError(RULE, rule, {"most": MOST_TOKENS})
    return lengths


Lengths = Annotated[int | tuple[Percentile, ...], AfterValidator(_checked)]
"""A number of tokens, or percentiles from 0 to 100; between two, the logarithm is linear."""


def table(lengths: int | tuple[Percentile, ...]) -> NDArray[np.int32]:
    """Return the lengths at `QUANTILES` equidistant probabilities, in rising order."""
    if isinstance(lengths, int):
        return np.full(QUANTILES, lengths, np.int32)
    percents, tokens = zip(*lengths, strict=True)
    at = 100 * (np.arange(QUANTILES) + 0.5) / QUANTILES
    return np.rint(np.exp(np.interp(at, percents, np.log(tokens)))).astype(np.int32)


PERCENTS = (0, 1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9, 100)
"""Percentages of distributions that people read."""
FINE = (*range(100), 99.9, 100)
"""Percentages of distributions that are only drawn from."""


def percentiles_of(
    values: NDArray[Any], weights: NDArray[Any], percents: Sequence[float] = FINE
) -> int | tuple[Percentile, ...]:
    """Return the percentiles of lengths that occur with weights; values rise, and are positive."""
    if len(values) == 1:
        return int(values[0])
    limits = np.cumsum(weights, dtype=float)
    at: NDArray[np.intp] = np.searchsorted(
        limits, np.array(percents) / 100 * limits[-1], side="left"
    )
    found = values[np.minimum(at, len(values) - 1)]
    return tuple((percent, int(value)) for percent, value in zip(percents, found, strict=True))


class SystemPrompts(Settings):
    """Prompts that start with one of several system prompts, each equally often."""

    groups: Annotated[int, Field(ge=1, le=1_000_000)]
    """Number of system prompts."""
    tokens: _Tokens
    """Tokens of a system prompt, in front of `prompt_tokens`."""


class Documents(Settings):
    """Several requests with the same long text: prompts of equal length and a shared start."""

    requests: Annotated[int, Field(ge=2, le=100_000)]
    """Requests per text."""
    share: Annotated[float, Field(gt=0, lt=1)]
    """Shared part of each prompt."""
    gap_seconds: Annotated[float, Field(gt=0, le=86_400)] = 60.0
    """Mean time between two requests with the same text."""


class Sessions(Settings):
    """Sessions whose prompts grow: each turn repeats all earlier tokens."""

    turns: Annotated[int, Field(ge=2, le=100_000)]
    """Requests of a session."""
    first_tokens: _Tokens
    """Prompt of the first turn."""
    tokens_per_turn: Annotated[int, Field(ge=1, le=1_000_000)]
    """Tokens that each turn adds, with the last answer."""
    gap_seconds: Annotated[float, Field(gt=0, le=86_400)] = 10.0
    """Mean time between the requests of a session."""


class Kind(Settings):
    """A kind of request."""

    share: _Share
    """Part of all requests; the shares of all kinds are scaled to 1."""
    gap_cv: Annotated[float, Field(ge=0.1, le=30)] = 1.0
    """Coefficient of variation of the gaps between arrivals, Gamma distributed; 1: Poisson. With
    `sessions`, at most the root of the sessions that are open at once, whose turns wait for an
    answer."""
    prompt_tokens: Lengths | None = None
    """Tokens of a prompt. Required, except with `sessions`."""
    output_tokens: Lengths
    """Tokens of an answer."""
    system_prompts: SystemPrompts | None = None
    documents: Documents | None = None
    sessions: Sessions | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        forms = [self.system_prompts, self.documents, self.sessions]
        if sum(form is not None for form in forms) > 1:
            rule = "must have at most one of system_prompts, documents and sessions"
            raise PydanticCustomError(RULE, rule)
        if (self.prompt_tokens is None) != (self.sessions is not None):
            rule = "must have either prompt_tokens or sessions, which states the prompts"
            raise PydanticCustomError(RULE, rule)
        return self


class Rate(Settings):
    """Traffic of a model."""

    requests_per_second: Annotated[float, Field(gt=0, le=1_000_000)]
    """Mean over the first day, before bursts."""
    context: Annotated[int, Field(ge=16, le=MOST_TOKENS)] | None = None
    """Most tokens of prompt and answer; longer requests are cut to it, sessions scaled."""
    teams: Annotated[dict[str, _Share], Field(max_length=30_000)] | None = None
    """Part of the requests of each team, among `teams` of the traffic; scaled to 1. Default: as for
    all models."""


class Origin(Settings):
    """Clients of a region."""

    share: _Share
    """Part of all requests; the shares of all regions are scaled to 1."""
    hours_ahead: Annotated[float, Field(ge=-24, le=24)] = 0.0
    """Hours by which the curve of the day is earlier than `hours`."""


class Burst(Settings):
    """A multiple of the usual rate for a while."""

    at_hours: Annotated[float, Field(ge=0, le=8_784)]
    """Start, in hours after the start of the traffic."""
    minutes: Annotated[float, Field(gt=0, le=527_040)]
    factor: Annotated[float, Field(ge=0, le=1_000)]
    """Multiple of the rate; 0: no request."""
    models: tuple[str, ...] = ()
    """Models with this burst. Default: all."""


class Pattern(Settings):
    """Traffic as rates, curves and a mix."""

    models: Annotated[dict[str, Rate], Field(min_length=1, max_length=1_000)]
    """Models by name."""
    kinds: Annotated[dict[str, Kind], Field(min_length=1, max_length=100)]
    """The mix of requests, for each model."""
    length_hours: Annotated[float, Field(gt=0, le=8_784)] = 24.0
    """Length of the traffic."""
    hours: Annotated[tuple[Annotated[float, Field(ge=0, le=1_000_000)], ...] | None,
                     Field(min_length=24, max_length=24)] = None  # fmt: skip
    """Relative rate of each hour of the day, scaled to a mean of 1. Default: constant."""
    days: Annotated[tuple[Annotated[float, Field(ge=0, le=1_000_000)], ...] | None,
                    Field(min_length=7, max_length=7)] = None  # fmt: skip
    """Rate of each of seven days, as a multiple of the first. Default: equal."""
    growth_per_day: Annotated[float, Field(ge=-0.9, le=10)] = 0.0
    """Growth of the rate from day to day: 0.02 is 2 %."""
    ten_minute_peak: Annotated[float, Field(ge=1, le=6)] | None = None
    """Highest mean of ten minutes over the mean of the day. Rates of ten minutes vary below it."""
    bursts: Annotated[tuple[Burst, ...], Field(max_length=1_000)] = ()
    teams: Annotated[dict[str, _Share], Field(max_length=30_000)] = Field(default={})
    """Part of the requests of each team; scaled to 1. Default: requests have no team."""
    regions: Annotated[dict[str, Origin], Field(max_length=1_000)] = Field(default={})
    """Where clients are. Default: unknown."""
    seed: Annotated[int, Field(ge=0, le=2**63)] = 0
    """The same seed gives the same requests."""

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.hours is not None and not any(self.hours):
            raise PydanticCustomError(RULE, "must have an hour with requests in `hours`")
        if self.days is not None and self.days[0] != 1:
            raise PydanticCustomError(RULE, "must have 1 as first of `days`: rates are its mean")
        for rate in self.models.values():
            for name in rate.teams or {}:
                if name not in self.teams:
                    known = ", ".join(self.teams) or "none"
                    rule = "must name `teams` of this traffic in `models` ({known})"
                    raise PydanticCustomError(RULE, rule, {"known": known})
        for burst in self.bursts:
            for name in burst.models:
                if name not in self.models:
                    known = ", ".join(self.models)
                    rule = "must name models of this traffic in `bursts` ({known})"
                    raise PydanticCustomError(RULE, rule, {"known": known})
        return self


_DOCUMENT = Document(Pattern.model_json_schema, "is not a field of traffic")


def read_pattern(path: Path) -> Pattern:
    """Return the traffic that a YAML file states.

    Raises:
        InputError: The file is not of this form.
    """
    size = path.stat().st_size
    if size > MOST_BYTES:
        rule = f"must have at most {MOST_BYTES:,} bytes, as a pattern, not a list of requests"
        raise InputError(str(path), rule, size)
    document = user_file(path)
    if not isinstance(document, dict):
        raise InputError(str(path), "must be a mapping with models and kinds", document)
    return pattern_of(document, str(path))


def pattern_of(document: object, where: str) -> Pattern:
    """Return the traffic of a document.

    Raises:
        InputError: A field breaks a rule. It has the first problem; `where` precedes the field.
    """
    try:
        return Pattern.model_validate(document, strict=False)
    except ValidationError as error:
        problem = _DOCUMENT.problems_of(error, ())[0]
        raise problem.at(f"{where}: {problem.path}" if problem.path else where) from None
