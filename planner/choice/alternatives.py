"""Alternatives to a platform on GKE that may fit better: rules of data/alternatives.yaml."""

from dataclasses import dataclass
from typing import Any

from planner.choice.cost import HOURS_PER_MONTH
from planner.choice.plan import Choice, Plan
from planner.fit.tables import table


@dataclass(frozen=True)
class Alternative:
    """Rule that applies."""

    name: str
    """Alternative that may fit better."""
    reason: str
    source: str


def facts(answer: Plan) -> dict[str, float]:
    """Return the values for the rules, from the best choice of a plan; empty without one."""
    if not answer.choices or not answer.choices[0].keeps_promise:
        return {}
    best = answer.choices[0]
    gpus = [one for one in answer.choices if _is_one_gpu(one)]
    found = {
        "peak_utilisation": best.utilisation if best.replicas == 1 else 1.0,
        "ttft_p95_ms": answer.question.ttft_p95_ms,
        "chips": float(best.candidate.form.chips * best.replicas),
        "smallest_gpu_gb": min(
            (one.candidate.form.chip.memory_gb for one in gpus), default=float("inf")
        ),
    }
    if best.usd_per_hour is not None:
        found["usd_per_month"] = best.usd_per_hour.value * HOURS_PER_MONTH
    return found


def _is_one_gpu(one: Choice) -> bool:
    form = one.candidate.form
    return one.keeps_promise and form.chips == 1 and form.chip.kind == "gpu"


def alternatives(answer: Plan) -> list[Alternative]:
    """Return the rules that apply to a plan."""
    known = facts(answer)
    return [
        Alternative(rule["name"], rule["says"], f"{rule['source']} ({rule['confidence']})")
        for rule in table("alternatives")["rules"]
        if all(_holds(condition, known) for condition in rule["when"])
    ]


def _holds(condition: dict[str, Any], known: dict[str, float]) -> bool:
    value = known.get(condition["fact"])
    if value is None:
        return False
    return value < condition.get("below", float("inf")) and value > condition.get("above", -1.0)
