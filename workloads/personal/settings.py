"""The settings of both roles, read from one JSON object."""

from dataclasses import dataclass
from typing import Any

from workloads.common.settings import SettingsError, check_bounds, check_endpoint, check_range, read

__all__ = ["FrontSettings", "SettingsError", "WorkSettings", "read"]


@dataclass(frozen=True)
class FrontSettings:
    """Settings of the service that users' uploads and requests go through."""

    bucket: str
    """Bucket of all data of users."""
    callback_hosts: tuple[str, ...]
    """Hosts that callbacks may go to."""
    signer: str
    """Email of the service account that signs URLs: that of the service itself."""
    topic: str
    """Topic of the sets that are ready, `projects/P/topics/T`."""
    erasures_topic: str
    """Topic of deletions, which must not wait behind sets."""
    min_photos: int = 3
    max_photos: int = 20
    """Pictures in a set."""
    max_bytes: int = 10_000_000
    """Maximum size of a picture."""
    max_images: int = 8
    """Maximum number of images to generate for a set."""
    max_open_sets: int = 4
    """Maximum number of unfinished sets of a user."""
    upload_seconds: int = 900
    """Lifetime of the URLs of uploads and results."""

    def __post_init__(self) -> None:
        """Reject numbers that cannot be.

        Raises:
            SettingsError: With field, rule and value.
        """
        check_range("min_photos", self.min_photos, 1, self.max_photos)
        check_range("upload_seconds", self.upload_seconds, 1, 604_800)
        check_bounds("personal-front", self)
        check_range("max_bytes", self.max_bytes, 1, 100_000_000)
        if not self.callback_hosts:
            raise SettingsError("callback_hosts: must have a host, got none")


@dataclass(frozen=True)
class WorkSettings:
    """Settings of the worker that takes a set from its pictures to the callback."""

    adapters: str
    """Folder of live adapters below the shared folder."""
    bucket: str
    """Bucket of all data of users."""
    erasures_subscription: str
    """Subscription of deletions, which must not wait behind sets."""
    config_map: dict[str, Any]
    """ConfigMap of a training job, without name and data."""
    endpoint: str
    """URL of the gateway, without a path."""
    job: dict[str, Any]
    """Training job, without name. It mounts the bucket at `/mnt/images`."""
    model: str
    """Model whose adapters are trained."""
    subscription: str
    """Subscription of the sets that are ready, `projects/P/subscriptions/S`."""
    training: dict[str, Any]
    """Settings of a training run that all sets share (workloads/diffusion/training.py)."""
    account: str = "/var/run/secrets/kubernetes.io/serviceaccount"
    """Folder of the Kubernetes token."""
    callback_tries: int = 8
    draw_seconds: float = 1800.0
    """Maximum time from the end of the training to the last image."""
    key_file: str = ""
    """File of the key of the clients' team; empty where requests need none."""
    lease_seconds: float = 60.0
    """Time after which another worker takes a set over whose worker is gone."""
    retention_days: int = 30
    """Days after which the bucket deletes a set, and workers its adapter in the shared folder."""
    port: int = 9090
    """Port of health."""
    secret_file: str = "/etc/personal/callback-secret"  # noqa: S105 - a path
    """File of the secret that signs callbacks."""
    sets: int = 16
    """Sets that a worker has in progress at a time."""
    shared: str = "/mnt/shared"
    """Mount of the shared folder."""
    train_seconds: float = 14_400.0
    """Maximum time from the creation of a job to its end, including its time in the queue."""

    def __post_init__(self) -> None:
        """Reject numbers that cannot be.

        Raises:
            SettingsError: With field, rule and value.
        """
        check_range("lease_seconds", self.lease_seconds, 0.1, 600)
        check_range("callback_tries", self.callback_tries, 1, 50)
        check_bounds("personal-worker", self)
        check_endpoint(self.endpoint)
