"""Rules between the settings of jobs that optimize models, for stacks and for the component."""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.problems import join

from .settings import Evaluation, Quantization


def check_quantization(where: str, settings: Quantization) -> Iterator[InputError]:
    """Yield the problem of a scheme without the data that it needs, or with data it ignores."""
    if settings.scheme.needs_data == (settings.data is not None):
        return
    rule = (
        f"is required for scheme {settings.scheme.value}: its calibration needs samples"
        if settings.data is None
        else f"must not be set for scheme {settings.scheme.value}, which needs no calibration"
    )
    yield InputError(join(where, "data"), rule, settings.data)


def check_evaluation(where: str, settings: Evaluation) -> Iterator[InputError]:
    """Yield the problems of an evaluation that asks nothing, or a task twice."""
    if not settings.tasks and settings.data is None:
        yield InputError(join(where, "tasks"), "must be set if data is not", Bare("none"))
    for at, task in enumerate(settings.tasks):
        if task in settings.tasks[:at]:
            yield InputError(join(where, "tasks", at), "must be set once", task, " twice")
