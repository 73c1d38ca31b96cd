"""Streams whose engines hang, and the alert about them."""

import os
import signal
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from gke_inference.base.manifests import COMPONENT_LABEL
from tests.platform.faults.rig import behind_launcher
from tests.platform.observe.alerts import alert
from twin.cluster.agent import records
from twin.host.paths import TwinPaths
from twin.tests.eventually import eventually
from twin.wire.kube import Kube

IDLE_SECONDS = 5
"""`clients.stream_idle_seconds`, its minimum."""
STREAMS = 8
"""More than the five that are an alert."""


def check_stalled_streams(
    paths: TwinPaths, of: openai.OpenAI, *, model: str, deployment: str
) -> None:
    """Let the engines of a model hang during streams, which is an error and then an alert."""
    (kubeconfig,) = paths.root.glob("clusters/*/kubeconfig")
    cluster, begun = kubeconfig.parent, threading.Barrier(STREAMS + 1, timeout=60)

    def follow() -> None:
        messages: Any = [{"role": "user", "content": "Which keys open which doors?"}]
        more = {"ignore_eos": True}
        stream = iter(
            of.chat.completions.create(
                model=model, messages=messages, max_tokens=4000, stream=True, extra_body=more
            )
        )
        next(stream)
        begun.wait()
        with pytest.raises(openai.APIError, match=rf"sent nothing for {IDLE_SECONDS} seconds"):
            list(stream)

    with ThreadPoolExecutor(STREAMS) as pool:
        streams = [pool.submit(follow) for _ in range(STREAMS)]
        begun.wait()
        with _hanging(cluster, deployment):
            for each in streams:
                each.result(60)

    def fires() -> list[Any]:
        found = alert(cluster, "StreamsStalled")
        return found["alerts"] if found["state"] == "firing" else []

    (active,) = eventually(fires, 120)
    assert active["labels"]["model"] == model


@contextmanager
def _hanging(cluster: Path, deployment: str) -> Generator[None]:
    """Stop the processes of a model's engines for a while."""
    path = "/api/v1/namespaces/models/pods"
    pods = Kube(cluster / "kubeconfig").list(path, f"{COMPONENT_LABEL}=model-server")
    mine = [pod["metadata"] for pod in pods if pod["metadata"]["name"].startswith(deployment)]
    files = [
        file
        for pod in mine
        for file in (cluster / "pods" / "models" / pod["uid"]).glob("*.process.json")
    ]
    found = [records.read(file) for file in files]
    pids = [behind_launcher(one.pid) for one in found if one is not None and one.alive]
    assert pids
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
