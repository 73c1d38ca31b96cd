"""Pipelines on Dataflow, in the network of the region whose model scores their events."""

import pulumi

from gke_inference.catalogue.versions import image, replaced
from gke_inference.pipelines.dataflow_pipeline import DataflowPipeline, DataflowPipelineArgs
from infra.plan import RegionPlan
from infra.plan.pipelines import PipelinePlan
from infra.stack import Gateway


def score_events(
    region: RegionPlan,
    gateway: Gateway,
    address: pulumi.Output[str],
    subnetwork: pulumi.Input[str],
    after: list[pulumi.Resource],
) -> None:
    """Build the pipelines whose workers are in a region.

    Args:
        region: The region.
        gateway: Settings of the region's gateway.
        address: Address of the region's gateway.
        subnetwork: Subnet of the region: a name, or the path of an existing subnet.
        after: Dependencies of the pipelines: the gateway.
    """
    for pipeline in region.pipelines:
        DataflowPipeline(
            f"pipeline-{pipeline.name}",
            pipeline_args(pipeline, region, gateway, address, subnetwork),
            pulumi.ResourceOptions(depends_on=after),
        )


def pipeline_args(
    pipeline: PipelinePlan,
    region: RegionPlan,
    gateway: Gateway,
    address: pulumi.Output[str],
    subnetwork: pulumi.Input[str],
) -> DataflowPipelineArgs:
    """Return the arguments of a pipeline; see `score_events`."""
    settings, project = pipeline.settings, region.project
    args = DataflowPipelineArgs(
        account_id=pipeline.account,
        batch=settings.batch,
        bucket_name=pipeline.bucket,
        endpoint=address.apply(gateway.endpoint),
        fields={
            "features": list(settings.features),
            "group": settings.group,
            "key": settings.key,
            "value": settings.value,
        },
        force_destroy=not project.is_protected,
        image=replaced(image("pipelines").reference, region.images.replacements),
        input=settings.input,
        labels=project.labels,
        lateness_seconds=settings.lateness_seconds,
        machine_type=settings.workers.machine_type,
        max_workers=settings.workers.max,
        min_workers=settings.workers.min,
        model=settings.model,
        output=settings.output,
        pipeline_name=pipeline.physical,
        project=project.id,
        region=region.name,
        retries=settings.retries,
        subnetwork=pulumi.Output.from_input(subnetwork).apply(
            lambda found: subnet_url(found, region.name)
        ),
        threshold=settings.threshold,
        totals_seconds=settings.totals_seconds,
        window_seconds=settings.window_seconds,
    )
    if settings.key_secret is not None:
        args["key_secret"] = settings.key_secret
    if settings.topic is not None:
        args["topic"] = settings.topic
    if region.settings.data_key is not None:
        args["kms_key"] = region.settings.data_key
    return args


def subnet_url(subnetwork: str, region: str) -> str:
    """Return a subnet as Dataflow names it: `regions/R/subnetworks/S`, or the URL of a path.

    Source: cloud.google.com/dataflow/docs/guides/specifying-networks.
    """
    if "/" in subnetwork:
        return f"https://www.googleapis.com/compute/v1/{subnetwork}"
    return f"regions/{region}/subnetworks/{subnetwork}"
