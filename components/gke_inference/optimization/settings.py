"""Settings of jobs that optimize models, which stacks and the component share."""

from typing import Literal

from pydantic import Field

from gke_inference.settings import Settings, Word
from gke_inference.settings.fields import DataObject, MetricName, TaskName


class Scheme(Word):
    """Precision of a quantized model, which vLLM reads as `compressed-tensors`."""

    FP8 = "fp8"
    W4A16 = "w4a16"
    W8A8 = "w8a8"

    @property
    def needs_data(self) -> bool:
        """Whether it needs samples for its calibration."""
        return self is not Scheme.FP8


class Quantization(Settings):
    """Quantization of a trained model (PTQ) with LLM Compressor."""

    scheme: Scheme
    """Precision of the result: `fp8`, 8-bit floating-point weights and activations; `w4a16`, 4-bit
    weights; or `w8a8`, 8-bit integer weights and activations."""
    data: DataObject | None = None
    """Object of the model bucket with samples of text for the calibration. Required, except with
    `fp8`, which needs none."""
    samples: int = Field(default=512, ge=1, le=100_000)
    """Maximum number of samples."""
    tokens: int = Field(default=2048, ge=8, le=1_048_576)
    """Maximum length of a sample, in tokens. The rest is cut off."""


class Tuning(Settings):
    """Training of a LoRA adapter with PEFT."""

    data: DataObject
    """Object of the model bucket with the samples."""
    rank: Literal[8, 16, 32, 64, 128, 256] = 16
    """Rank of the adapter: 8, 16, 32, 64, 128 or 256."""
    alpha: int = Field(default=32, ge=1, le=1024)
    """Scale of the adapter, which is divided by the rank."""
    epochs: int = Field(default=3, ge=1, le=1000)
    """Number of times that each sample is used."""
    batch: int = Field(default=8, ge=1, le=1024)
    """Samples in each step."""
    learning_rate: float = Field(default=0.0002, gt=0, le=1)
    """Learning rate at the beginning. It falls to 0."""
    tokens: int = Field(default=2048, ge=8, le=1_048_576)
    """Maximum length of a sample, in tokens. The rest is cut off."""


class Evaluation(Settings):
    """Comparison of two models with lm-evaluation-harness, through the gateway."""

    tolerance: float = Field(ge=0, le=1)
    """Maximum loss of a score against the baseline, from 0 to 1. A larger loss of any task refuses
    a canary that names the evaluation."""
    tasks: tuple[TaskName, ...] = Field(default=(), max_length=50)
    """Tasks of the harness that generate text, such as `gsm8k`. Their questions come from the
    Hugging Face hub. `tasks` or `data` is required."""
    data: DataObject | None = None
    """Object of the model bucket with questions and answers of your own."""
    metric: MetricName | None = None
    """Metric of the tasks, as METRIC,FILTER. By default, the first one of each task."""
    limit: int | None = Field(default=None, ge=1, le=1_000_000)
    """Maximum number of questions of each task. All by default."""
    answer_tokens: int = Field(default=256, ge=1, le=131_072)
    """Maximum length of an answer in tokens, for tasks that set none."""
    concurrency: int = Field(default=8, ge=1, le=256)
    """Concurrent requests."""
