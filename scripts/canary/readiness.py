"""Readiness of a canary: without a replica, its share of the requests gets 503."""

from scripts.accept.deployed import Deployed, Object
from scripts.terminal.console import CommandError
from twin.wire.kube import KubeError


def check_ready(deployed: Deployed, model: str) -> None:
    """Check that a canary has a ready replica in each of its clusters.

    Raises:
        CommandError: Names the cluster; nothing was changed.
    """
    settings = deployed.plan.platform.models[model]
    version = "" if settings.canary is None else settings.canary.version
    for served in deployed.plan.models[f"{model}-{version}"]:
        cluster = deployed.clusters[served.region]
        label = f"gke-inference/model={served.object_name}"
        try:
            pods = cluster.pods(label)
        except KubeError as error:
            raise CommandError(f"cluster {cluster.name}: {error.message}") from None
        if not any(_is_ready(pod) for pod in pods):
            raise CommandError(
                f"--model: must have a canary with a ready replica in {cluster.name}, got"
                f" {model!r}; see gke-inference status"
            )


def _is_ready(pod: Object) -> bool:
    status: Object = pod.get("status") or {}
    conditions: list[Object] = status.get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
