"""Models on Cloud Run: the services of a region."""

from typing import Any

import pulumi

from gke_inference.catalogue.files.buckets import bucket_in
from gke_inference.catalogue.versions import image, replaced
from gke_inference.intent.cloud_run import RUN_IMAGE, CloudRunSettings
from gke_inference.serving.cloud_run.cloud_run_model import CloudRunModel, CloudRunModelArgs
from infra.plan import RegionPlan
from infra.plan.backends import BackendsPlan
from infra.plan.cloud_run import RunService


def run_models(
    backends: BackendsPlan | None,
    region: RegionPlan,
    models_bucket: pulumi.Input[str],
    opts: pulumi.ResourceOptions,
) -> list[pulumi.Resource]:
    """Build the services of a region. Return them.

    Args:
        backends: Backends of the stack.
        region: The region.
        models_bucket: The platform's bucket of weights in the region.
        opts: Options with the APIs as dependencies.
    """
    if backends is None:
        return []
    return [
        CloudRunModel(
            f"{region.name}-{service.role}", run_args(service, region, models_bucket), opts
        )
        for service in backends.services_in(region.name)
    ]


def run_args(
    service: RunService, region: RegionPlan, models_bucket: pulumi.Input[str]
) -> CloudRunModelArgs:
    """Return the arguments of a service."""
    settings: dict[str, Any] = {
        name: getattr(service.settings, name) for name in CloudRunSettings.model_fields
    }
    settings["weights"] = service.weights
    args = CloudRunModelArgs(
        account_id=service.account_id,
        image=replaced(image(RUN_IMAGE).reference, region.images.replacements),
        labels=region.project.labels,
        model=CloudRunSettings(**settings),
        project=service.project,
        region=service.region,
        served_name=service.served_name,
        service_name=service.name,
        timeout_seconds=service.timeout_seconds,
    )
    if bucket_in(service.settings.weights) is None:
        args["bucket"] = models_bucket
    return args
