"""Settings of a pipeline in the tests of its parts."""

from typing import Any

GIVEN: dict[str, Any] = {
    "pipeline": "payments",
    "endpoint": "http://127.0.0.1:8080",
    "model": "fraud",
    "features": ["amount", "window_count", "abroad", "window_sum"],
    "group": "shop",
    "key": "card",
    "value": "amount",
    "input": "features",
    "output": "probability",
    "threshold": 0.5,
    "window_seconds": 86_400,
    "lateness_seconds": 3_600,
    "totals_seconds": 60,
    "batch": 32,
    "retries": 5,
}
