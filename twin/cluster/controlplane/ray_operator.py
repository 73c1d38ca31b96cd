"""GKE's Ray operator: the real KubeRay beside a cluster that has the add-on.

GKE installs KubeRay's kinds and runs its operator where no user sees it
(docs.cloud.google.com/kubernetes-engine/docs/add-on/ray-on-gke/concepts/overview); here it is a
process beside the cluster. Which version GKE runs is not published: rule cluster.ray-operator.
"""

import logging
import threading
from pathlib import Path

from twin.cluster.base.context import ClusterContext
from twin.cluster.controlplane import bootstrap
from twin.host import processes
from twin.host.ports import free_port
from twin.toolchain import missing, needed_by, share, wait_for
from twin.wire.property_values import get_path
from twin.world.store import list_resources

_LOG = logging.getLogger(__name__)
_CLUSTER = "gcp:container/cluster:Cluster"
_ADDON = "addonsConfig.rayOperatorConfigs"
_CRDS, _TOOL = "crds/ray", "ray"
_HOST = "127.0.0.1"
_LOOK_SECONDS = 2.0
_RETRY_SECONDS = 5.0


def process_name(folder: Path) -> str:
    """Return the name under which a cluster's operator is recorded."""
    return f"{folder.name}.kuberay"


class RayOperator:
    """KubeRay of one cluster; it runs only while the cluster has the add-on."""

    def __init__(self, ctx: ClusterContext) -> None:
        self._ctx = ctx
        self._name = process_name(ctx.dir)
        self._is_installed = False

    def kinds(self) -> list[Path]:
        """Return the folders of kinds that a cluster with the add-on has once it is ready.

        None without KubeRay, as in a first deployment with plain `pulumi`: the cluster does not
        wait for it, and `run` installs its kinds later.
        """
        self._is_installed = self._is_enabled() and not missing(needed_by(_TOOL))
        return [share(_CRDS)] if self._is_installed else []

    def run(self, stop: threading.Event) -> None:
        """Keep KubeRay running where the add-on is on, until `stop` is set; it outlives this."""
        while not stop.is_set():
            if not self._is_enabled():
                processes.stop(self._ctx.paths, self._name)
                stop.wait(_LOOK_SECONDS)
                continue
            if not self._is_installed:
                if not wait_for(_TOOL, stop):
                    return
                bootstrap.add_crds(self._ctx.kube, [share(_CRDS)])
                self._is_installed = True
            stop.wait(_RETRY_SECONDS if self._ensure() else _LOOK_SECONDS)

    def _is_enabled(self) -> bool:
        """Return whether the cluster has the add-on, or is being created with it."""
        return any(
            each.status != "deleting"
            and each.name == self._ctx.spec.name
            and any(addon.get("enabled") for addon in get_path(each.outputs, _ADDON) or ())
            for each in list_resources(self._ctx.paths, (_CLUSTER,))
        )

    def _ensure(self) -> bool:
        """Start KubeRay if it does not run, and return whether it had to be started."""
        paths = self._ctx.paths
        if processes.pid_of(paths, self._name) is not None:
            return False
        _LOG.info("starting KubeRay (log: %s)", processes.log_of(paths, self._name))
        argv = [
            str(self._ctx.tool("kuberay")),
            f"--kubeconfig={self._ctx.kubeconfig}",
            "--enable-leader-election=false",
            f"--health-probe-bind-address={_HOST}:{free_port()}",
            f"--metrics-addr={_HOST}:{free_port()}",
        ]
        processes.start(paths, self._name, argv)
        return True
