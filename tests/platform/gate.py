"""The gate for clients of a twin, as tests see it: which keys its replicas know."""

import time

from gke_inference.base.manifests import COMPONENT_LABEL
from gke_inference.clients.callout import COMPONENT, METRICS_PORT
from tests.platform.pod_metrics import metric_of
from twin.host.paths import TwinPaths
from twin.tests.eventually import eventually
from twin.wire.kube import Kube

PODS = "/api/v1/namespaces/models/pods"
GATES = f"{COMPONENT_LABEL}={COMPONENT}"
AGE = "callout_key_document_age_seconds"
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
            read_at = asked - metric_of(kubeconfig.parent, pod, METRICS_PORT, AGE)
            if read_at > seen[-1] + (APART_SECONDS if len(seen) > 1 else 0):
                seen.append(read_at)
        return all(len(seen) > 2 for seen in reads.values())

    eventually(are_read, 30)
