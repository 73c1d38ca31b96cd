"""Bodies without a key that are large or that nobody finishes, at the gateway of a twin."""

import asyncio
import time
from urllib.parse import urlsplit

from gke_inference.base.manifests import COMPONENT_LABEL
from gke_inference.gateway.body_memory import ROUTER
from gke_inference.gateway.router import COMPONENT, METRICS_PORT
from tests.platform.pod_metrics import metric_of
from twin.host.paths import TwinPaths
from twin.wire.kube import Kube

MIB = 1 << 20
_MEMORY = "process_resident_memory_bytes"


async def _ask(endpoint: str, body: int, sent: int) -> tuple[int, float]:
    at = urlsplit(endpoint)
    reader, writer = await asyncio.open_connection(at.hostname, at.port)
    began = time.monotonic()
    writer.write(
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: {at.hostname}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {body}\r\n\r\n".encode()
    )
    writer.write(b"[]" * (sent // 2))
    line = await reader.readline()
    seconds = time.monotonic() - began
    writer.transport.abort()
    return int(line.split()[1]), seconds


def answers(endpoint: str, number: int, body: int, sent: int) -> list[tuple[int, float]]:
    """Begin requests at once; return the status of each and the seconds until it was there.

    Args:
        endpoint: URL of the gateway.
        number: Number of requests.
        body: Bytes that each announces.
        sent: Bytes that each sends, and then waits.
    """

    async def ask() -> list[tuple[int, float]]:
        return await asyncio.gather(*(_ask(endpoint, body, sent) for _ in range(number)))

    return asyncio.run(asyncio.wait_for(ask(), 60))


def memory_of_routers(paths: TwinPaths) -> list[float]:
    """Return the share of its memory limit that each replica of the body router uses."""
    (kubeconfig,) = paths.root.glob("clusters/*/kubeconfig")
    found: list[float] = []
    for pod in Kube(kubeconfig).list("/api/v1/pods", f"{COMPONENT_LABEL}={COMPONENT}"):
        assert not any(state["restartCount"] for state in pod["status"]["containerStatuses"])
        used = metric_of(kubeconfig.parent, pod, METRICS_PORT, _MEMORY)
        found.append(used / (ROUTER.limit_mib * MIB))
    return found
