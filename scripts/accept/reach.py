"""The two places where a platform can be accepted: a twin, and a Google Cloud project."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from infra.plan import Plan
from scripts.accept.deployed import Cluster, Deployed
from scripts.accept.inside import opened
from scripts.calibrate.sources import history_of, of_twin, regions_on_twin
from scripts.shared.google_cloud import Cloud, ReadOnly
from scripts.terminal.console import CommandError
from twin.cluster.monitoring import promql
from twin.host.paths import TwinPaths
from twin.world.rules import Rules


def on_twin(plan: Plan, stack: str, paths: TwinPaths) -> Deployed:
    """Return a stack on a twin that runs.

    Raises:
        CommandError: The twin is not running, or the stack is not up there.
    """
    from scripts.backend.twin_cloud import twin_cloud  # noqa: PLC0415 - loads HTTP clients

    clusters: dict[str, Cluster] = {}
    for region, kube, address in regions_on_twin(plan, stack, paths):

        def query(expression: str, address: str = address) -> Sequence[promql.Sample]:
            return promql.query(address, expression)

        clusters[region.name] = Cluster(
            region, kube, query, of_twin(address), partial(opened, kube)
        )
    cloud = twin_cloud(plan.platform.project, plan.platform.project_number, paths)
    reading = replace(cloud, session=ReadOnly(cloud.session))
    speed = Rules.of(paths).speed
    return Deployed(plan, stack, "on the twin", reading, clusters, is_twin=True, speed=speed)


def in_google_cloud(plan: Plan, stack: str) -> Deployed:
    """Return a stack in its project, with the application default credentials.

    Raises:
        CommandError: A cluster of the stack does not exist or cannot be reached.
        CloudError: There are no credentials.
    """
    # these load Google's clients, which takes seconds
    from scripts.backend.cloud import CloudBackend  # noqa: PLC0415
    from scripts.shared import google_clients  # noqa: PLC0415

    connected = google_clients.connect(plan.platform.project)
    backend = CloudBackend(plan, stack, connected, lambda: google_clients.token_of(connected))
    cloud = backend.cloud
    with google_clients.plain_errors():
        apis = {cluster.name: cluster.kube for cluster in backend.clusters()}
    absent = [one.cluster_name for one in plan.regions.values() if one.cluster_name not in apis]
    if absent:
        raise CommandError(f"--stack: must be up in all of its regions, got none of {absent}")
    clusters = {
        name: Cluster(
            region,
            apis[region.cluster_name],
            lambda expression: managed(cloud, expression),
            history_of(cloud),
            partial(opened, apis[region.cluster_name]),
        )
        for name, region in plan.regions.items()
    }
    return Deployed(plan, stack, f"in {backend.label}", cloud, clusters)


def managed(cloud: Cloud, expression: str) -> Sequence[promql.Sample]:
    """Return the result of a PromQL query in Cloud Monitoring, over the series of all clusters.

    Source: docs.cloud.google.com/stackdriver/docs/managed-prometheus/query-api-ui (2026-11-22).

    Raises:
        CloudError: Google refuses.
    """
    url = f"monitoring.googleapis.com/v1/projects/{cloud.project}/location/global/prometheus"
    return promql.samples(cloud.get(f"{url}/api/v1/query", query=expression))
