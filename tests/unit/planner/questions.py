"""Questions to the planner."""

from typing import Any

from gke_inference.sizing.architectures import find
from planner.choice.question import Question


def question(name: str = "llama-3.1-8b", **changes: Any) -> Question:
    model = find(name)
    assert model is not None
    values: dict[str, Any] = {
        "rate": 10.0,
        "given": 1000,
        "made": 200,
        "regions": ("us-central1",),
        **changes,
    }
    return Question(model, **values)
