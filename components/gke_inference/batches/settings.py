"""Settings of batches, which stacks and the components of batches share."""

from typing import Annotated, Final

from pydantic import Field

MinWorkers = Annotated[int, Field(ge=0, le=1)]
"""Minimum number of workers. 0 needs a cluster that supports scaling to zero."""
MIN_WORKERS: Final = 1
MaxWorkers = Annotated[int, Field(ge=1, le=100)]
"""Maximum number of workers."""
MAX_WORKERS: Final = 4
EngineRequests = Annotated[int, Field(ge=1, le=4096)]
"""Maximum concurrent requests of a job with an engine."""
ENGINE_REQUESTS: Final = 256
"""What vLLM has in a batch on most hardware (`--max-num-seqs`)."""
TeamGib = Annotated[int, Field(ge=1, le=100_000)]
"""Maximum size of a team's files and answers, in GiB."""
TEAM_GIB: Final = 100
RetentionDays = Annotated[int, Field(ge=2, le=365)]
"""Days that files, answers and batches are retained."""
RETENTION_DAYS: Final = 30
