"""Settings of pipelines, which stacks and the component share."""

from typing import Annotated, Final

from pydantic import Field

FieldName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=60)]
"""Name of a field of an event, or of a tensor of a model."""
WINDOW_FEATURES: Final = ("window_count", "window_sum")
"""Features that the pipeline computes (workloads/pipelines/settings.py); no event has them."""
INPUT: Final = "features"
"""Tensor of a model for the features, of shape [events, features]."""
OUTPUT: Final = "probability"
"""Tensor of a model with the scores, of shape [events, 1]."""
WindowSeconds = Annotated[int, Field(ge=1, le=31 * 86_400)]
"""Length of the window that the features of a key look back."""
WINDOW_SECONDS: Final = 86_400
LatenessSeconds = Annotated[int, Field(ge=0, le=7 * 86_400)]
"""How late an event may be."""
LATENESS_SECONDS: Final = 3_600
TotalsSeconds = Annotated[int, Field(ge=1, le=86_400)]
"""Length of the windows of totals."""
TOTALS_SECONDS: Final = 60
Threshold = Annotated[float, Field(ge=0, le=1)]
"""Score from which on an event is flagged."""
THRESHOLD: Final = 0.5
BatchSize = Annotated[int, Field(ge=1, le=1_000)]
"""Most events in a request."""
BATCH: Final = 32
Retries = Annotated[int, Field(ge=0, le=20)]
"""Attempts after the first at a request."""
RETRIES: Final = 5
PipelineWorkers = Annotated[int, Field(ge=1, le=1_000)]
"""Number of workers; Dataflow's maximum is 1,000 (`max_workers` of the provider's schema)."""
MIN_WORKERS: Final = 1
MAX_WORKERS: Final = 3
MACHINE_TYPE: Final = "n1-standard-2"
"""With Streaming Engine, small machines are best (cloud.google.com/dataflow/docs/streaming-engine).
"""
DISK_GIB: Final = 30
"""Boot disk of a worker with Streaming Engine, Dataflow's default (assumed)."""
