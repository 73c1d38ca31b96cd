"""Rules about predictive models, whose requests and answers are tensors."""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import InputError
from gke_inference.intent.intent import ServingIntent
from gke_inference.intent.settings import NO_CONTEXT
from gke_inference.intent.words import Task


def predictive_problems(intent: ServingIntent) -> Iterator[InputError]:
    """Yield settings that a predictive model cannot have."""
    if intent.task is not Task.PREDICT:
        if intent.grpc:
            yield InputError("grpc", f"must be false when task is {intent.task}", True)
        return
    if intent.context != NO_CONTEXT:
        rule = f"must not be set when task is {intent.task}: there are no tokens"
        yield InputError("context", rule, intent.context)
    if intent.settings.tensor_parallel is not None:
        rule = f"must not be set when task is {intent.task}: each device has the whole model"
        yield InputError("settings.tensor_parallel", rule, intent.settings.tensor_parallel)
    if "/" in intent.served_name:
        rule = f"must be without / when task is {intent.task}: it is a part of the path"
        yield InputError("served_name", rule, intent.served_name)
