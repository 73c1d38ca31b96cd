"""The engine model beside runs of real engines."""

from statistics import median
from typing import Any

from simulator.engine.accuracy import Found, closed_loops, traces

_DIGITS = 1


def engine_rows() -> list[dict[str, Any]]:
    """Simulate every run, and return its errors in percent, with the largest of each bound."""
    found = (*traces(), *closed_loops())
    rows = [_row(one) for one in found]
    dense = [one for one in found if not one.is_mixture]
    rows.append(
        {
            "run": "all of dense models",
            "e2e_largest": _largest(dense, "e2e"),
            "e2e_p99_largest": _largest(
                [one for one in dense if "e2e_p99" in one.errors], "e2e_p99"
            ),
            "tpot_median": _median(dense, "tpot"),
            "ttft_median": _median(dense, "ttft"),
        }
    )
    return rows


def _row(one: Found) -> dict[str, Any]:
    errors = {f"{name}_percent": round(100 * each, _DIGITS) for name, each in one.errors.items()}
    return {"run": one.name, "fitted": one.is_fitted, **errors}


def _largest(found: list[Found], quantity: str) -> float:
    return round(100 * max(abs(one.errors[quantity]) for one in found), _DIGITS)


def _median(found: list[Found], quantity: str) -> float:
    return round(100 * median(abs(one.errors[quantity]) for one in found), _DIGITS)
