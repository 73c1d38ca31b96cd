"""Pipelines: stateful streaming on Dataflow, with scores of a predictive model."""

from gke_inference.pipelines.settings import (
    BATCH,
    INPUT,
    LATENESS_SECONDS,
    MACHINE_TYPE,
    MAX_WORKERS,
    MIN_WORKERS,
    OUTPUT,
    RETRIES,
    THRESHOLD,
    TOTALS_SECONDS,
    WINDOW_SECONDS,
    BatchSize,
    FieldName,
    LatenessSeconds,
    Retries,
    Threshold,
    TotalsSeconds,
    WindowSeconds,
)
from gke_inference.pipelines.settings import PipelineWorkers as WorkerCount
from gke_inference.settings import Settings
from gke_inference.settings.fields import (
    MachineType,
    ModelName,
    RegionName,
    SecretId,
    TopicName,
)


class PipelineWorkers(Settings):
    """Workers of a pipeline: VMs that Dataflow manages."""

    min: WorkerCount = MIN_WORKERS
    """Number of workers at the start. Dataflow can go below it, to 1."""
    max: WorkerCount = MAX_WORKERS
    """Maximum number of workers."""
    machine_type: MachineType = MACHINE_TYPE
    """Machine type without accelerators."""


class Pipeline(Settings):
    """Events of a topic that a predictive model scores, with features from earlier events."""

    model: ModelName
    """Model of task `predict` that scores the events."""
    features: tuple[FieldName, ...]
    """Features of the model, in its order: fields of an event with a number, or `window_count` and
    `window_sum`, the number of earlier events of the same key in the window, and the sum of their
    values."""
    group: FieldName
    """Field of an event that totals are kept by, such as `merchant`."""
    key: FieldName
    """Field of an event whose values have a state each, such as `card`."""
    value: FieldName
    """Field of an event with the number that is summed, such as `amount_usd`."""
    batch: BatchSize = BATCH
    """Most events in a request."""
    input: FieldName = INPUT
    """Tensor of the model for the features, of shape [events, features]."""
    key_secret: SecretId | None = None
    """Existing secret of Secret Manager in the stack's project, with the key of a team of
    `clients`."""
    lateness_seconds: LatenessSeconds = LATENESS_SECONDS
    """How late an event may be. Older ones can become dead letters."""
    output: FieldName = OUTPUT
    """Tensor of the model with the scores, of shape [events, 1]."""
    region: RegionName | None = None
    """Region of the workers. By default, the first region with the model, by name."""
    retries: Retries = RETRIES
    """Attempts after the first at a request that can succeed later."""
    threshold: Threshold = THRESHOLD
    """Score from which on an event is flagged."""
    topic: TopicName | None = None
    """Existing topic of events, `projects/P/topics/T`. By default, one is created."""
    totals_seconds: TotalsSeconds = TOTALS_SECONDS
    """Length of the windows of totals."""
    window_seconds: WindowSeconds = WINDOW_SECONDS
    """Length of the window of `window_count` and `window_sum`."""
    workers: PipelineWorkers = PipelineWorkers()
    """Number and kind of workers."""
