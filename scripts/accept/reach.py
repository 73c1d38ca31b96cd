"""The two places where a platform can be accepted: a twin, and a project of Google Cloud."""

import json
from collections.abc import Sequence
from dataclasses import replace

from gke_inference.base.kubeconfig import kubeconfig
from infra.plan import Plan
from scripts.accept.deployed import Cluster, Deployed
from scripts.shared.google_cloud import Cloud, ReadOnly
from scripts.terminal.console import CommandError
from twin import daemon
from twin.cluster import lifecycle
from twin.cluster.base.context import ClusterSpec
from twin.cluster.monitoring import promql
from twin.cluster.monitoring.server import address_of
from twin.host.paths import TwinPaths
from twin.wire.kube import Kube
from twin.world.rules import Rules


def on_twin(plan: Plan, stack: str, paths: TwinPaths) -> Deployed:
    """Return a stack on a twin that runs.

    Raises:
        CommandError: The twin does not run, or the stack is not up there.
    """
    from scripts.backend.twin_cloud import twin_cloud  # noqa: PLC0415 - loads HTTP clients

    if daemon.ports(paths) is None:
        raise CommandError("the twin is not running; start it with make up")
    folders = {ClusterSpec.load(each).name: each for each in lifecycle.folders(paths)}
    clusters: dict[str, Cluster] = {}
    for name, region in plan.regions.items():
        folder = folders.get(region.cluster_name)
        address = None if folder is None else address_of(folder)
        if folder is None or address is None:
            rule = "must be a stack that is up on the twin"
            raise CommandError(f"--stack: {rule}, got {stack!r}; run make up STACK={stack}")
        handle = lifecycle.handle(region.location, region.cluster_name, paths)

        def query(expression: str, address: str = address) -> Sequence[promql.Sample]:
            return promql.query(address, expression)

        clusters[name] = Cluster(region, Kube(handle.kubeconfig), query)
    cloud = twin_cloud(plan.platform.project, plan.platform.project_number, paths)
    reading = replace(cloud, session=ReadOnly(cloud.session))
    speed = Rules.of(paths).speed
    return Deployed(plan, stack, "on the twin", reading, clusters, is_twin=True, speed=speed)


def in_google_cloud(plan: Plan, stack: str) -> Deployed:
    """Return a stack in its project, with the application default credentials.

    Raises:
        CloudError: There are no credentials, or a cluster of the stack is not there.
    """
    # these load Google's clients and Pulumi, which take seconds
    from scripts.models.in_cluster import cluster_endpoint  # noqa: PLC0415
    from scripts.shared import google_clients  # noqa: PLC0415

    connected = google_clients.connect(plan.platform.project)
    cloud = replace(connected, session=ReadOnly(connected.session))
    with google_clients.plain_errors():
        clusters = {
            name: Cluster(
                region,
                Kube(json.loads(kubeconfig(name, cluster_endpoint(cloud, plan, name)))),
                lambda expression: managed(cloud, expression),
            )
            for name, region in plan.regions.items()
        }
    return Deployed(plan, stack, f"in project {plan.platform.project}", cloud, clusters)


def managed(cloud: Cloud, expression: str) -> Sequence[promql.Sample]:
    """Return what Cloud Monitoring answers to PromQL, for the series of all clusters.

    Source: docs.cloud.google.com/stackdriver/docs/managed-prometheus/query-api-ui (2026-11-22).

    Raises:
        CloudError: Google refuses.
    """
    url = f"monitoring.googleapis.com/v1/projects/{cloud.project}/location/global/prometheus"
    return promql.samples(cloud.get(f"{url}/api/v1/query", query=expression))
