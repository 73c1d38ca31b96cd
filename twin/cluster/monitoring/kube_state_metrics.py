"""The kube-state-metrics process of one cluster, with the series that GKE collects.

The series are those of the packages POD, DEPLOYMENT, STATEFULSET, DAEMONSET and HPA in
docs.cloud.google.com/kubernetes-engine/docs/how-to/kube-state-metrics. GKE runs the program in the
cluster; here it is a process outside the cluster that listens only on loopback.
"""

import logging
import time
from pathlib import Path

from twin.cluster.base.context import ClusterContext
from twin.cluster.monitoring import addresses
from twin.cluster.monitoring.system_jobs import RESTARTS
from twin.host import processes

_LOG = logging.getLogger(__name__)
_RETRY_SECONDS = 5.0
METRICS = {
    "pods": (
        RESTARTS,
        "kube_pod_container_status_ready",
        "kube_pod_container_status_waiting_reason",
        "kube_pod_status_phase",
        "kube_pod_status_unschedulable",
    ),
    "deployments": (
        "kube_deployment_spec_replicas",
        "kube_deployment_status_replicas_available",
        "kube_deployment_status_replicas_updated",
    ),
    "statefulsets": (
        "kube_statefulset_replicas",
        "kube_statefulset_status_replicas_ready",
        "kube_statefulset_status_replicas_updated",
    ),
    "daemonsets": (
        "kube_daemonset_status_desired_number_scheduled",
        "kube_daemonset_status_number_misscheduled",
        "kube_daemonset_status_number_ready",
        "kube_daemonset_status_updated_number_scheduled",
    ),
    "horizontalpodautoscalers": (
        "kube_horizontalpodautoscaler_spec_max_replicas",
        "kube_horizontalpodautoscaler_spec_min_replicas",
        "kube_horizontalpodautoscaler_spec_target_metric",
        "kube_horizontalpodautoscaler_status_condition",
        "kube_horizontalpodautoscaler_status_current_replicas",
        "kube_horizontalpodautoscaler_status_desired_replicas",
    ),
}
"""Metrics by collection: those of GKE's packages, and `RESTARTS`."""


def process_name(folder: Path) -> str:
    """Return the name under which a cluster's kube-state-metrics is recorded."""
    return f"{folder.name}.kube-state-metrics"


class KubeStateMetrics:
    """One cluster's kube-state-metrics and its folder `CLUSTER_DIR/kube-state-metrics`."""

    def __init__(self, ctx: ClusterContext) -> None:
        self._ctx = ctx
        self._name = process_name(ctx.dir)
        self._file = ctx.dir / "kube-state-metrics" / "addresses"
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._started_at: float | None = None

    @property
    def address(self) -> str:
        """Host and port of the metrics; unchanged by a restart."""
        return self._addresses()[0]

    def ensure(self) -> None:
        """Start it if it does not run. It answers after its first listing.

        Raises:
            processes.ProcessError: the program cannot be run.
            twin.toolchain.ToolError: the program is not built.
        """
        paths = self._ctx.paths
        if processes.pid_of(paths, self._name) is not None:
            return
        if self._started_at is not None:
            if time.monotonic() < self._started_at + _RETRY_SECONDS:
                return
            log = processes.log_of(paths, self._name)
            _LOG.warning("kube-state-metrics ended, starting it again (log: %s)", log)
        if any(addresses.is_taken(address) for address in self._addresses()):
            self._file.unlink()  # by a stranger, while this cluster was down
        processes.start(paths, self._name, self._arguments())
        self._started_at = time.monotonic()

    def _addresses(self) -> list[str]:
        return addresses.kept(self._file, 2)

    def _arguments(self) -> list[str]:
        own, telemetry = (address.rpartition(":")[2] for address in self._addresses())
        allowed = [name for names in METRICS.values() for name in names]
        return [
            str(self._ctx.tool("kube-state-metrics")),
            f"--kubeconfig={self._ctx.kubeconfig}",
            f"--host={addresses.HOST}",
            f"--port={own}",
            f"--telemetry-host={addresses.HOST}",
            f"--telemetry-port={telemetry}",
            f"--resources={','.join(METRICS)}",
            f"--metric-allowlist={','.join(allowed)}",
        ]
