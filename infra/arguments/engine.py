"""The translator of engines: how a stack's model is computed, as arguments of its servers."""

from gke_inference.serving.model_server import ModelServerArgs, SpeculativeArgs
from infra.plan.names import Names
from infra.stack import EngineSettings, Model, Pictures, Platform, Task


def set_engine(
    args: ModelServerArgs, platform: Platform, settings: EngineSettings, region: str
) -> None:
    """Set what a model's engine is told beside what it serves; the rest is the engine's own."""
    if settings.block_size is not None:
        args["block_size"] = settings.block_size
    if settings.kv_cache_dtype is not None:
        args["kv_cache_dtype"] = settings.kv_cache_dtype.value
    if settings.max_batch is not None:
        args["max_batch"] = settings.max_batch
    if not settings.prefix_caching:
        args["prefix_caching"] = False
    if settings.quantization is not None:
        args["quantization"] = settings.quantization.value
    if settings.tensor_parallel is not None:
        args["tensor_parallel"] = settings.tensor_parallel
    guess = settings.speculative
    if guess is not None:
        args["speculative"] = SpeculativeArgs(method=guess.method.value, tokens=guess.tokens)
        if guess.weights is not None:
            args["speculative"]["weights"] = Names(platform).weights(guess.weights, region)


def set_pictures(args: ModelServerArgs, model: Model) -> None:
    """Set what a model that draws offers its clients; nothing of another model."""
    if model.task is not Task.IMAGE:
        return
    pictures = Pictures() if model.pictures is None else model.pictures
    args["image_queue"] = pictures.queue
    args["image_sizes"] = list(pictures.sizes)
    if pictures.steps is not None:
        args["image_steps"] = pictures.steps
