"""Context of a model: that it has one, within what its published configuration allows.

Engines that check it end at start otherwise.
"""

from collections.abc import Iterator

from gke_inference.catalogue.engines import engine
from gke_inference.catalogue.input_error import InputError
from gke_inference.intent.intent import ServingIntent
from gke_inference.intent.settings import NO_CONTEXT
from gke_inference.intent.words import Task
from gke_inference.sizing.architectures import longest_context


def context_problems(intent: ServingIntent) -> Iterator[InputError]:
    """Yield a context that is missing, or beyond that of a known model.

    Settings can extend the positions of a model.
    """
    if intent.task is Task.PREDICT:
        return
    if intent.context == NO_CONTEXT:
        yield InputError("context", f"is required when task is {intent.task}")
        return
    way = engine(intent.engine).longer_context
    known = longest_context(intent.weights, intent.served_name)
    if way is None or known is None or intent.context <= known[1]:
        return
    if way.variable in intent.settings.variables or any(
        flag in intent.settings.flags for flag in way.flags
    ):
        return
    name, most = known
    note = f"; longer needs {way.flags[0]} in engine_args, with the scaling of its positions"
    yield InputError("context", f"must be at most {most} for {name}", intent.context, note)
