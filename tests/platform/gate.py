"""The gate for clients of a twin, as tests see it: which keys its replicas know."""

import time
import urllib.request
from typing import Any

from twin.host.paths import TwinPaths
from twin.tests.eventually import eventually
from twin.wire.kube import Kube

PODS = "/api/v1/namespaces/models/pods"
GATES = "app.kubernetes.io/component=client-gate"
AGE = "callout_key_document_age_seconds"
METRICS_PORT = 9012
APART_SECONDS = 1.0
"""Two reads are at least so far apart: a replica reads every two seconds."""


def until_keys_are_read(paths: TwinPaths) -> None:
    """Wait until each replica of the gate has read the keys twice: the first read may be under way.

    A key that a replica does not know yet counts as a wrong one, and 20 of those shut a client out.
    """
    (kubeconfig,) = paths.root.glob("clusters/*/kubeconfig")
    pods = Kube(kubeconfig).list(PODS, GATES)
    assert len(pods) >= 2
    began = time.time()
    reads = {pod["metadata"]["name"]: [began] for pod in pods}

    def are_read() -> bool:
        for pod in pods:
            seen = reads[pod["metadata"]["name"]]
            asked = time.time()
            read_at = asked - _age(pod)
            if read_at > seen[-1] + (APART_SECONDS if len(seen) > 1 else 0):
                seen.append(read_at)
        return all(len(seen) > 2 for seen in reads.values())

    eventually(are_read, 30)


def _age(pod: dict[str, Any]) -> float:
    url = f"http://{pod['status']['podIP']}:{METRICS_PORT}/metrics"
    with urllib.request.urlopen(url, timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    (age,) = (line.split()[1] for line in lines if line.startswith(f"{AGE} "))
    return float(age)
