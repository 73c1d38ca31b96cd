"""Streams: the topics of each, and its workers in one region."""

import pulumi

from gke_inference.cluster.workload_identity import (
    BucketAccessArgs,
    WorkloadIdentity,
    WorkloadIdentityArgs,
)
from gke_inference.gateway.picker import METRICS_PORT as PICKER_METRICS_PORT
from gke_inference.streams.settings import ResultsKind, ResultsSettings
from gke_inference.streams.stream_table import StreamTable, StreamTableArgs
from gke_inference.streams.stream_topics import StreamTopics, StreamTopicsArgs
from gke_inference.streams.stream_worker import StreamWorker, StreamWorkerArgs
from infra.deploy.built_region import ServedRegion
from infra.deploy.identities import identity_of
from infra.plan import RegionPlan
from infra.plan.project import ProjectPlan
from infra.plan.streams import StreamPlan


def stream_to_models(served: ServedRegion, needed: list[pulumi.Resource]) -> None:
    """Build the streams whose workers are in a region.

    Args:
        served: The region.
        needed: Dependencies of the workers: the namespace and the gateway.
    """
    region, behind = served.plan, served.after(*needed)
    for stream in region.streams:
        logical = f"stream-{stream.name}"
        identity = WorkloadIdentity(f"{logical}-identity", identity_args(stream, region), behind)
        args = topics_args(stream, region.project, identity.principal)
        # A project has no workload pool, and therefore no principals, before its first cluster.
        after_identity = pulumi.ResourceOptions(depends_on=[identity])
        topics = None if args is None else StreamTopics(f"{logical}-topics", args, after_identity)
        access = table_args(stream, identity.principal)
        table = None if access is None else StreamTable(f"{logical}-table", access, after_identity)
        StreamWorker(
            logical,
            worker_args(stream, region, served.endpoint, topics),
            pulumi.ResourceOptions.merge(
                behind,
                pulumi.ResourceOptions(depends_on=[each for each in (identity, table) if each]),
            ),
        )


def identity_args(stream: StreamPlan, region: RegionPlan) -> WorkloadIdentityArgs:
    """Return the arguments of the workers' identity, with its bucket permissions."""
    access = (
        {}
        if stream.bucket is None
        else {"results": BucketAccessArgs(access="write", bucket=stream.bucket)}
    )
    return identity_of(region.project, region.namespace, stream.worker, access)


def topics_args(
    stream: StreamPlan, project: ProjectPlan, worker: pulumi.Input[str]
) -> StreamTopicsArgs | None:
    """Return the arguments of a stream's Pub/Sub topics, or None for Kafka."""
    if stream.is_kafka:
        return None
    results = stream.settings.results
    args = StreamTopicsArgs(
        keeps_results=results.kind is ResultsKind.TOPIC,
        labels=project.labels,
        ordered=stream.settings.ordered,
        project=project.id,
        project_number=project.number,
        stream_name=stream.physical,
        worker=worker,
    )
    if stream.settings.source.topic is not None:
        args["topic"] = stream.settings.source.topic
    if results.table is not None:
        args["results_table"] = results.table
    return args


def table_args(stream: StreamPlan, worker: pulumi.Input[str]) -> StreamTableArgs | None:
    """Return the arguments of the access to a Kafka stream's table, if its answers go to one."""
    table = stream.settings.results.table
    if table is None or not stream.is_kafka:
        return None
    return StreamTableArgs(table=table, worker=worker)


def worker_args(
    stream: StreamPlan,
    region: RegionPlan,
    endpoint: pulumi.Input[str],
    topics: StreamTopics | None,
) -> StreamWorkerArgs:
    """Return the arguments of a stream's workers.

    Args:
        stream: The stream.
        region: Region of the stream.
        endpoint: URL of the region's gateway.
        topics: Pub/Sub topics of the stream, if any.
    """
    settings, namespace = stream.settings, region.namespace
    args = StreamWorkerArgs(
        attempts=settings.attempts,
        backlog_per_worker=settings.workers.backlog_per_worker,
        dead_letters="",
        deadline_seconds=settings.deadline_seconds,
        endpoint=endpoint,
        max_workers=settings.workers.max,
        metrics_namespace=region.metrics_namespace,
        min_workers=settings.workers.min,
        model=settings.model,
        names=list(stream.names),
        namespace=namespace,
        network_policy=region.has_network_policies,
        ordered=settings.ordered,
        requests_per_worker=settings.workers.requests,
        results=_results(stream),
        scale_in_delay_seconds=settings.workers.scale_in_delay_seconds,
        service_account=stream.worker,
        stream_name=stream.name,
        worker_name=stream.worker,
    )
    if stream.has_picker:
        args["objective"] = f"{stream.pool}-{settings.priority.value}"
        args["picker"] = f"{stream.pool}-picker.{namespace}.svc:{PICKER_METRICS_PORT}"
    if settings.key_secret is not None:
        args["key_secret"] = settings.key_secret
    if settings.team is not None:
        args["team"] = settings.team
    if topics is not None:
        args["dead_letters"] = topics.dead_letters
        args["results_topic"] = topics.results
        args["subscription"] = topics.subscription
        return args
    source = settings.source
    args["brokers"] = list(source.brokers)
    args["cluster_name"] = region.cluster_name
    args["dead_letters"] = f"{source.topic}-dead-letters"
    args["group"] = source.group or stream.physical
    args["source_topic"] = source.topic or ""
    if source.secret is not None:
        args["kafka_secret"] = source.secret
    return args


def _results(stream: StreamPlan) -> ResultsSettings:
    results = stream.settings.results
    if stream.bucket is not None:
        return ResultsSettings(kind=results.kind, bucket=stream.bucket, prefix=results.prefix)
    if results.table is not None:
        return ResultsSettings(kind=results.kind, table=results.table)
    if stream.is_kafka and results.kind is ResultsKind.TOPIC:
        topic = results.topic or f"{stream.settings.source.topic}-results"
        return ResultsSettings(kind=results.kind, topic=topic)
    return ResultsSettings(kind=results.kind)
