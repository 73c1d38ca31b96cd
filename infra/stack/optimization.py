"""Optimization of models: jobs that quantize, train adapters and evaluate."""

from pydantic import Field

from gke_inference.optimization import settings as shared
from gke_inference.settings import Settings
from gke_inference.settings.fields import ModelName, Name, ObjectName, Weights


class Quantization(shared.Quantization):
    """A quantized model in the making."""

    model: ModelName
    """Language model of the stack whose weights are quantized."""
    weights: Weights
    """Folder of the model bucket for the result, such as `weights` of a canary."""


class Tuning(shared.Tuning):
    """A LoRA adapter in the making."""

    model: ModelName
    """Language model of the stack that the adapter is for."""
    adapter: ModelName
    """Name of the adapter, whose folder is next to the weights: `adapters/NAME`."""


class Evaluation(shared.Evaluation):
    """Two models that are compared: by default, the canary of a model with the stable version."""

    model: ModelName
    """Language model of the stack to evaluate."""
    adapter: ModelName | None = None
    """Adapter of the model, which is then compared with the model itself."""
    against: ModelName | None = None
    """Other model of the stack with which the model is compared."""


class Optimization(Settings):
    """Jobs of a queue that make and check optimized models. Users start each run."""

    queue: Name
    """Queue of the jobs. Its flavors must have GPUs, unless all jobs are evaluations."""
    team: Name
    """Team of the queue, in whose namespace the jobs run."""
    evaluations: dict[Name, Evaluation] = Field(default_factory=dict[str, Evaluation])
    """Comparisons of two models, by name."""
    key_secret: ObjectName | None = None
    """Kubernetes Secret in the namespace of the team, with the key of a team of `clients` in `key`,
    for the requests of evaluations."""
    quantizations: dict[Name, Quantization] = Field(default_factory=dict[str, Quantization])
    """Quantized models, by name of the job."""
    tunings: dict[Name, Tuning] = Field(default_factory=dict[str, Tuning])
    """LoRA adapters, by name of the job."""
