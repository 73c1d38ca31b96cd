"""Rules about pipelines: a model that scores, workers that reach it, and an image for them."""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.machine_types import is_general
from gke_inference.catalogue.problems import join
from gke_inference.pipelines.rules import check_features, check_value, check_workers
from infra.rules.clients import check_asking
from infra.stack import Layer, Platform, Task


def check_pipelines(platform: Platform) -> Iterator[InputError]:
    """Yield the problems of a platform's pipelines."""
    if platform.pipelines and platform.layer is not Layer.ALL:
        rule = "must not be set when layer is platform or serving"
        yield InputError("pipelines", rule, len(platform.pipelines))
        return
    network = platform.existing.network
    if platform.pipelines and network is not None and network.split("/")[1] != platform.project:
        rule = "must be of the same project with pipelines: Dataflow's agent has no role in another"
        yield InputError("existing.network", rule, network)
    for name, pipeline in platform.pipelines.items():
        where = join("pipelines", name)
        model = platform.models.get(pipeline.model)
        if model is not None and model.task is not Task.PREDICT:
            rule = "must be a model of task predict: streams are for models of text"
            value = Bare(f"{pipeline.model}, {model.task.value}")
            yield InputError(join(where, "model"), rule, value)
        yield from check_asking(platform, where, pipeline)
        yield from check_features(where, pipeline.features)
        yield from check_value(where, pipeline.value)
        workers = pipeline.workers
        yield from check_workers(join(where, "workers", "min"), workers.min, workers.max)
        if not is_general(workers.machine_type):
            rule = "must be a machine type without accelerators"
            yield InputError(join(where, "workers", "machine_type"), rule, workers.machine_type)
