"""The stream of a twin, as tests see it: its messages, its workers and its engines."""

import base64
import json
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.running.stream.world import Received
from twin.host.paths import TwinPaths
from twin.providers.gcp.effects import pubsub

STACK = ("--stack", "streaming")
PROJECT = "projects/acme-inference-streaming"
NAME = "acme-streaming-stream-summaries"


class Stream:
    """The stream of a twin: its messages, its workers and its engines."""

    def __init__(self, paths: TwinPaths) -> None:
        self._paths = paths
        (spec,) = (paths.root / "clusters").glob("*/spec.json")
        self._cluster = spec.parent

    def call(self, path: str, body: Any) -> dict[str, Any]:
        """Call Pub/Sub's REST API."""
        url = f"http://{pubsub.metrics_address(self._paths)}/v1/{PROJECT}/{path}"
        asked = urllib.request.Request(url, json.dumps(body).encode(), method="POST")
        with urllib.request.urlopen(asked, timeout=20) as answer:  # noqa: S310 - of this machine
            return json.loads(answer.read())

    def put(self, data: bytes) -> str:
        message = {"data": base64.b64encode(data).decode()}
        return self.call(f"topics/{NAME}:publish", {"messages": [message]})["messageIds"][0]

    def take(self, name: str) -> list[Received]:
        """Return all messages of a subscription, acknowledged."""
        found: list[Received] = []
        path = f"subscriptions/{name}"
        while True:
            answer = self.call(f"{path}:pull", {"maxMessages": 1000})
            received = answer.get("receivedMessages", [])
            if not received:
                return found
            self.call(f"{path}:acknowledge", {"ackIds": [each["ackId"] for each in received]})
            found += [Received.of(each["message"]) for each in received]

    def backlog(self) -> int:
        url = f"http://{pubsub.metrics_address(self._paths)}/metrics"
        with urllib.request.urlopen(url, timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        wanted = f'subscription_id="{NAME}"'
        (line,) = [x for x in lines if "num_undelivered" in x and wanted in x]
        return int(line.rsplit(" ", 1)[1])

    def pids(self, container: str) -> list[int]:
        """Return the processes of the containers of a name."""
        files = (self._cluster / "pods").glob(f"*/*/{container}.process.json")
        found = [json.loads(file.read_text())["pid"] for file in files]
        return [pid for pid in found if Path(f"/proc/{pid}").exists()]


def until(condition: Callable[[], Any], seconds: float, every: float = 0.5) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not true within {seconds} s"
        time.sleep(every)
