"""The replica with the real engine that `up --real-engine` asks for."""

from infra.plan.names import NAMESPACE, object_name
from scripts.shared.placements import Placement, placements, settled
from scripts.terminal.console import CommandError
from twin.cluster import lifecycle as clusters
from twin.cluster.agent.launching.real_engine import replica
from twin.cluster.base.context import ClusterSpec
from twin.host.paths import TwinPaths
from twin.wire.kube import Kube


def keep_real(paths: TwinPaths, model: str, timeout: float) -> str:
    """Ensure that a ready replica of a model runs the real engine, and return its pod's name.

    The replica that started first runs the real engine. If that replica is gone since another
    replaced it, all that run are simulated: one of them is deleted, and its replacement is real.

    Args:
        paths: Paths of the twin.
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
        _end(paths, ready[0])
        settled(paths, timeout, quiet=3.0)
    name = replica(paths)
    if name is None or name not in [one.pod for one in _ready(paths, model)]:
        raise CommandError(
            f"the replica of {model} with the real engine is not ready after {timeout:.0f} s"
        )
    return name


def _ready(paths: TwinPaths, model: str) -> list[Placement]:
    return [
        one for one in placements(paths) if one.model == object_name(model) and one.state == "ready"
    ]


def _end(paths: TwinPaths, one: Placement) -> None:
    for folder in clusters.folders(paths):
        spec = ClusterSpec.load(folder)
        if spec.name == one.cluster:
            kube = Kube(clusters.handle(spec.location, spec.name, paths).kubeconfig)
            kube.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/{one.pod}")
