"""Python environments of the programs that use Pub/Sub, separate from the checkout's.

Google's Pub/Sub client and Pulumi's SDK both register `google.rpc.Status`, which is possible only
once per process.
"""

from typing import Final

from twin.host.paths import REPOSITORY
from twin.toolchain.python_environments import PythonEnvironment

_IMAGES: Final = REPOSITORY / "workloads" / "images"


def stream_environment() -> PythonEnvironment:
    """Return the environment of the stream worker, whether or not it is installed."""
    return _of("stream", "the worker of streams", "stream-worker")


def personal_environment() -> PythonEnvironment:
    """Return the environment of personalized images, whether or not it is installed."""
    return _of("personal", "the programs of personalized images", "personal-images")


def _of(image: str, title: str, package: str) -> PythonEnvironment:
    lock = _IMAGES / image / "requirements.lock"
    pins = (line.partition("==") for line in lock.read_text().splitlines() if "==" in line)
    version = next(rest.split()[0] for name, _, rest in pins if name == "google-cloud-pubsub")
    return PythonEnvironment(
        word=image,
        title=title,
        package=package,
        version=version,
        lock=lock,
        disk_gib=1,
        fetching="its packages, some 30 MB",
    )
