"""Personalized images: users' photos become an adapter, and images of it."""

from pydantic import Field

from gke_inference.settings import Settings
from gke_inference.settings.fields import (
    Hostname,
    ModelName,
    Name,
    ObjectName,
)


class PersonalImages(Settings):
    """A service for uploads and requests on Cloud Run, and a worker that trains and generates."""

    model: ModelName
    """Image model with live adapters in the shared folder."""
    queue: Name
    """Queue of the training jobs."""
    team: Name
    """Team of the queue with `shared_folder`. Worker and jobs run in its namespace."""
    callers: tuple[str, ...] = Field(min_length=1, max_length=20)
    """IAM members that may call the service: the backend of your app, which authenticates its
    users."""
    callback_hosts: tuple[Hostname, ...] = Field(min_length=1, max_length=20)
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
    max_photos: int = Field(default=20, ge=3, le=100)
    """Maximum number of photos of a set (`pictures` in the API)."""
    max_images: int = Field(default=8, ge=1, le=64)
    """Maximum number of images generated for a set."""
    max_open_sets: int = Field(default=4, ge=1, le=1000)
    """Maximum number of unfinished sets of a user."""
    key_secret: ObjectName | None = None
    """Kubernetes Secret in the namespace of the team, with the key of a team of `clients` in
    `key`."""
    retention_days: int = Field(default=30, ge=2, le=3650)
    """Days after which photos, images and adapters are deleted from the bucket, and adapters from
    the shared folder."""
    nearline_after_days: int | None = Field(default=None, ge=1, le=3650)
    """Age at which photos, images and adapters move to Nearline storage, billed for at least 30
    days."""
    coldline_after_days: int | None = Field(default=None, ge=1, le=3650)
    """Age at which they move to Coldline storage, billed for at least 90 days."""
    archive_after_days: int | None = Field(default=None, ge=1, le=3650)
    """Age at which they move to Archive storage, billed for at least 365 days."""
    sets_per_worker: int = Field(default=16, ge=1, le=1000)
    """Sets that each of the two workers has in progress."""
    train_seconds: int = Field(default=14_400, ge=60, le=259_200)
    """Maximum time from the creation of a training job to its end, including its time in the
    queue."""
