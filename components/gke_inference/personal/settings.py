"""Settings of personalized images, which stacks and the components share."""

from typing import Annotated, Final

from pydantic import Field

ENTRIES: Final = Field(min_length=1, max_length=20)
"""Limits of the lists of callers and of hosts."""
TRAINER_IMAGE: Final = "diffusion_tpu"
"""Image of the training jobs that a worker creates: that of the image server."""
SetPhotos = Annotated[int, Field(ge=3, le=100)]
"""Maximum number of photos of a set (`pictures` in the API)."""
SET_PHOTOS: Final = 20
SetImages = Annotated[int, Field(ge=1, le=64)]
"""Maximum number of images generated for a set."""
SET_IMAGES: Final = 8
UserSets = Annotated[int, Field(ge=1, le=1000)]
"""Maximum number of unfinished sets of a user."""
USER_SETS: Final = 4
WorkerSets = Annotated[int, Field(ge=1, le=1000)]
"""Sets that a worker has in progress."""
WORKER_SETS: Final = 16
RetentionDays = Annotated[int, Field(ge=2, le=3650)]
"""Days after which photos, images and adapters are deleted."""
RETENTION_DAYS: Final = 30
TrainSeconds = Annotated[int, Field(ge=60, le=259_200)]
"""Maximum time from the creation of a training job to its end, including its time in the queue.

Pub/Sub keeps a message for seven days, and a worker holds it for twice this time.
"""
TRAIN_SECONDS: Final = 14_400
