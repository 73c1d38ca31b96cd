"""The replica of a model that `up --real-engine` promises, once the model has settled."""

from infra.plan.names import NAMESPACE, object_name
from scripts.console import CommandError
from scripts.placements import Placement, placements, settled
from twin.cluster import lifecycle as clusters
from twin.cluster.agent.launching.real_engine import replica
from twin.cluster.base.context import ClusterSpec
from twin.host.paths import TwinPaths
from twin.wire.kube import Kube


def keep_real(paths: TwinPaths, model: str, timeout: float) -> str:
    """See to it that a replica of a model is real and ready; return the name of its pod.

    The replica that started first has the place. Where that one only stood in until another was
    ready, the place is free again and everything that runs is simulated: one of those is then
    ended, and the replica that comes instead of it is real.

    Args:
        paths: of the twin.
        model: name in the stack.
        timeout: how long the real engine may take to start, in seconds.

    Raises:
        CommandError: no replica of the model is ready, or the real one is not in time.
        KubeError: a cluster does not answer.
    """
    if replica(paths) is None:
        ready = _ready(paths, model)
        if not ready:
            raise CommandError(f"no replica of {model} is ready: none can become the real one")
        _end(paths, ready[0])
        settled(paths, timeout, quiet=3.0)
    name = replica(paths)
    if name is None or name not in [one.pod for one in _ready(paths, model)]:
        raise CommandError(
            f"the real replica of {model} is not ready after {timeout:.0f} s; "
            f"`gke-inference logs {model}` says how far it is"
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
