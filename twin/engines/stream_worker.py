"""The Python environment of the stream worker, separate from the checkout's.

Google's Pub/Sub client and Pulumi's SDK both register `google.rpc.Status`, which is possible only
once per process.
"""

from typing import Final

from twin.host.paths import REPOSITORY
from twin.toolchain.python_environments import PythonEnvironment

_LOCK: Final = REPOSITORY / "workloads" / "images" / "stream" / "requirements.lock"


def stream_environment() -> PythonEnvironment:
    """Return the environment, whether or not it is installed."""
    pins = (line.partition("==") for line in _LOCK.read_text().splitlines() if "==" in line)
    version = next(rest.split()[0] for name, _, rest in pins if name == "google-cloud-pubsub")
    return PythonEnvironment(
        word="stream",
        title="the worker of streams",
        package="stream-worker",
        version=version,
        lock=_LOCK,
        disk_gib=1,
        fetching="its packages, some 30 MB",
    )
