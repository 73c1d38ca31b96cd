"""The replica with the real engine that `up --real-engine` asks for."""

from infra.plan.names import object_name
from scripts.shared.clusters import of_twin
from scripts.shared.placements import Placement, placements, settled
from scripts.terminal.console import CommandError
from twin.cluster.agent.launching.real_engine import replica
from twin.host.paths import TwinPaths


def keep_real(paths: TwinPaths, namespace: str, model: str, timeout: float) -> str:
    """Ensure that a ready replica of a model runs the real engine, and return its pod's name.

    The first replica to start runs the real engine. If that replica was replaced, all running
    replicas are simulated; in that case one of them is deleted and its replacement is real.

    Args:
        paths: Paths of the twin.
        namespace: Namespace of the models.
        model: Name in the stack.
        timeout: Maximum start time of the real engine, in seconds.

    Raises:
        CommandError: No replica of the model is ready, or the real one is not ready in time.
        KubeError: A cluster does not answer.
    """
    if replica(paths) is None:
        ready = _ready(paths, model)
        if not ready:
            raise CommandError(f"no replica of {model} is ready, so none can run the real engine")
        _end(paths, namespace, ready[0])
        settled(paths, timeout, quiet=3.0)
    name = replica(paths)
    if name is None or name not in [one.pod for one in _ready(paths, model)]:
        raise CommandError(
            f"the replica of {model} with the real engine is not ready after {timeout:.0f} s"
        )
    return name


def _ready(paths: TwinPaths, model: str) -> list[Placement]:
    return [
        one
        for one in placements(of_twin(paths))
        if one.model == object_name(model) and one.state == "ready"
    ]


def _end(paths: TwinPaths, namespace: str, one: Placement) -> None:
    for cluster in of_twin(paths):
        if cluster.name == one.cluster:
            cluster.kube.delete(f"/api/v1/namespaces/{namespace}/pods/{one.pod}")
