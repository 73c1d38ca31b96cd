"""Numbers of the requests that workers of batches and of streams send to models."""

from typing import Annotated, Final

from pydantic import Field

DeadlineSeconds = Annotated[int, Field(ge=10, le=3600)]
"""Maximum time to answer one request."""
DEADLINE_SECONDS: Final = 600
WorkerRequests = Annotated[int, Field(ge=1, le=200)]
"""Maximum concurrent requests of a worker."""
WORKER_REQUESTS: Final = 16
