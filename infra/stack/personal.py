"""Personalized images: users' photos become an adapter, and images of it."""

from typing import Annotated

from pydantic import Field

from gke_inference.personal.settings import (
    ENTRIES,
    RETENTION_DAYS,
    SET_IMAGES,
    SET_PHOTOS,
    TRAIN_SECONDS,
    USER_SETS,
    WORKER_SETS,
    RetentionDays,
    SetImages,
    SetPhotos,
    TrainSeconds,
    UserSets,
    WorkerSets,
)
from gke_inference.settings.fields import (
    Hostname,
    ModelName,
    Name,
    ObjectName,
)
from gke_inference.storage.settings import ColderAges


class PersonalImages(ColderAges):
    """A service for uploads and requests on Cloud Run, and a worker that trains and generates."""

    model: ModelName
    """Image model with live adapters in the shared folder."""
    queue: Name
    """Queue of the training jobs."""
    team: Name
    """Team of the queue with `shared_folder`. Worker and jobs run in its namespace."""
    callers: Annotated[tuple[str, ...], ENTRIES]
    """IAM members that may call the service: the backend of your app, which authenticates its
    users."""
    callback_hosts: Annotated[tuple[Hostname, ...], ENTRIES]
    """Hosts that callbacks may go to."""
    callback_secret: ObjectName
    """Kubernetes Secret in the namespace of the team, with the secret that signs callbacks in
    `secret`."""
    prompt: str = Field(default="a photo of sks person", min_length=1, max_length=200)
    """Prompt of the training, with the word for the subject."""
    rank: int = Field(default=16, ge=4, le=128)
    """Rank of the adapters: 4, 8, 16, 32, 64 or 128, at most `live_adapters.max_rank`."""
    steps: int = Field(default=500, ge=1, le=100_000)
    """Training steps."""
    max_photos: SetPhotos = SET_PHOTOS
    """Maximum number of photos of a set (`pictures` in the API)."""
    max_images: SetImages = SET_IMAGES
    """Maximum number of images generated for a set."""
    max_open_sets: UserSets = USER_SETS
    """Maximum number of unfinished sets of a user."""
    key_secret: ObjectName | None = None
    """Kubernetes Secret in the namespace of the team, with the key of a team of `clients` in
    `key`."""
    retention_days: RetentionDays = RETENTION_DAYS
    """Days after which photos, images and adapters are deleted from the bucket, and adapters from
    the shared folder."""
    sets_per_worker: WorkerSets = WORKER_SETS
    """Sets that each of the two workers has in progress."""
    train_seconds: TrainSeconds = TRAIN_SECONDS
    """Maximum time from the creation of a training job to its end, including its time in the
    queue."""
