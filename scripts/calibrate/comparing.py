"""Engines of one model on one rung, beside the models of them: one comparison for all commands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from gke_inference.sizing.shapes import shape_of
from planner.speed.calibrated import LEAST_FACTOR, MOST_FACTOR, Entry, Replica
from planner.speed.errors import of_new
from planner.speed.points import BETWEEN, points_of
from scripts.calibrate.series import Grown, together
from scripts.shared.calibration_files import precision_of
from simulator.engine.core import cost_model
from simulator.engine.settings import Deployment
from simulator.engine.step_times import LEAST_PERIODS, LEAST_STEPS, Compared, compare

_NO_REPLICA: Final = "no replica"
_TOO_LITTLE: Final = "too little data"


@dataclass(frozen=True)
class Planned:
    """The planner's time between tokens, at the measured batch and lengths."""

    tpot_ms: float
    low: float
    high: float
    """Ends of its 80 % interval."""


@dataclass(frozen=True)
class Comparison:
    """A model on a rung, as measured and as modeled."""

    model: str
    """Name in the stack, or model ID."""
    rung: str
    engine: str
    """Title of the engine."""
    found: Grown
    deployment: Deployment | None
    result: Compared | None
    why: str = ""
    """Why there is no result."""
    region: str = ""
    has_too_little: bool = False
    """Whether there are replicas, but too few tokens."""

    @property
    def verdict(self) -> str:
        """The result in words."""
        result = self.result
        if result is None:
            return self.why
        if result.is_off:
            return "slower" if result.factor > 1 else "faster"
        return "within the interval" if result.low <= 1 <= result.high else "within 5 %"

    @property
    def replica(self) -> Replica | None:
        """What a calibration file has one entry of; None for engines without a model."""
        made = self.deployment
        if made is None:
            return None
        chip, bits = made.surroundings.accelerator.name, made.shape.bits
        name = name_of(made) or self.model
        return name, self.engine, chip, made.chips, precision_of(bits)

    def entry(self, minutes: float, end: float) -> Entry | None:
        """Return what a calibration file has of it; None without a difference beyond noise.

        Args:
            minutes: Period.
            end: Its end, in seconds since 1970.
        """
        if self.result is None or not self.result.is_off:
            return None
        made = self._measurement(minutes, end)
        # an end of the interval that is 1 in the digits of the file cannot be read again
        is_noise = made is None or made.step_factor_low <= 1 <= made.step_factor_high
        return None if is_noise else made

    def _measurement(self, minutes: float, end: float) -> Entry | None:
        result, replica = self.result, self.replica
        if result is None or replica is None:
            return None
        model, title, accelerator, chips, precision = replica
        return Entry(
            model=model,
            rung=self.rung,
            accelerator=accelerator,
            chips=chips,
            engine=title,
            precision=precision,
            step_factor=round(result.factor, 4),
            step_factor_low=round(max(result.low, LEAST_FACTOR), 4),
            step_factor_high=round(min(result.high, MOST_FACTOR), 4),
            tpot_ms=round(1e3 * result.tpot_seconds, 3),
            batch=round(result.batch, 3),
            input_tokens=round(self.found.mean("prompt_tokens", "prompts") or 1, 1),
            output_tokens=round(self.found.output_tokens, 1),
            minutes=minutes,
            measured=datetime.fromtimestamp(end, UTC).isoformat(timespec="seconds"),
        )

    def planned(self) -> Planned | None:
        """Return what the planner estimates; None for a model that it does not know."""
        entry = self._measurement(1.0, 0.0)
        points = [] if entry is None else points_of([entry.row()])
        group = of_new(points).of(BETWEEN) if points else None
        if group is None or not group.compared:
            return None
        one = group.compared[0]
        return Planned(one.estimated, one.low, one.high)

    def plain(self, entry: Entry | None) -> dict[str, Any]:
        """Return it as JSON data, with its entry in a file if it has one."""
        result, planned = self.result, self.planned()
        measured: Mapping[str, Any] | None = (
            None
            if result is None
            else {
                "predicted_tpot_ms": 1e3 * result.model_seconds,
                "measured_tpot_ms": 1e3 * result.tpot_seconds,
                "factor": result.factor,
                "low": result.low,
                "high": result.high,
                "differs": result.is_off,
                "batch": result.batch,
                "periods": result.periods,
            }
        )
        return {
            "model": self.model,
            "rung": self.rung,
            "region": self.region or None,
            "engine": self.engine,
            "replicas": self.found.replicas,
            "verdict": self.verdict,
            "result": measured,
            "planner_tpot_ms": None if planned is None else planned.tpot_ms,
            "planner_low_ms": None if planned is None else planned.low,
            "planner_high_ms": None if planned is None else planned.high,
            "totals": dict(self.found.totals),
            "entry": None if entry is None else entry.model_dump(mode="json"),
        }


def compared(
    model: str,
    rung: str,
    engine: str,
    found: Grown,
    deployment: Deployment,
    least_periods: int = LEAST_PERIODS,
) -> Comparison:
    """Return the comparison of engines' growth with the engine model.

    Args:
        model: Name of the model.
        rung: Label of the rung.
        engine: Title of the engine.
        found: Growth of the engines' counters.
        deployment: Settings of the engines.
        least_periods: Periods that are needed; fewer than the default give no true interval.
    """
    prompt, result, why = found.mean("prompt_tokens", "prompts"), None, _NO_REPLICA
    if found.replicas:
        why = _too_little(found, least_periods)
    if prompt is not None:
        result = compare(
            found.periods,
            cost_model(deployment),
            prompt + found.output_tokens / 2,
            deployment.max_batched_tokens,
            least_periods,
        )
    if result is not None and not LEAST_FACTOR <= result.factor <= MOST_FACTOR:
        why = (
            f"another engine: steps must take {LEAST_FACTOR:g} to {MOST_FACTOR:g} times the model's"
            f" time, got {result.factor:.3g} times"
        )
        result = None
    is_short = result is None and why.startswith(_TOO_LITTLE)
    return Comparison(model, rung, engine, found, deployment, result, why, has_too_little=is_short)


def pooled(rows: Sequence[Comparison]) -> list[Comparison]:
    """Return one comparison for each kind of replica with a result, of all its regions together."""
    found: dict[Replica, list[Comparison]] = {}
    for row in rows:
        if row.result is not None and row.replica is not None:
            found.setdefault(row.replica, []).append(row)
    made: list[Comparison] = []
    for same in found.values():
        first, grown = same[0], together([each.found for each in same])
        if first.deployment is None:
            continue
        made.append(compared(first.model, first.rung, first.engine, grown, first.deployment))
    return made


def _too_little(found: Grown, least: int) -> str:
    enough = sum(each.steps >= LEAST_STEPS for each in found.periods)
    tokens = found.totals.get("between_tokens", 0.0)
    return (
        f"{_TOO_LITTLE}: {tokens:,.0f} tokens; {enough} of {least} scrapes with {LEAST_STEPS} steps"
    )


def name_of(deployment: Deployment) -> str | None:
    """Return the name by which the planner knows an engine's model; None if by none."""
    for name in (*deployment.served_names, deployment.model):
        try:
            shape_of(name)
        except ValueError:
            continue
        return name
    return None
