"""Project-level resources: APIs before anything else, and one role once clusters exist."""

from collections.abc import Mapping

import pulumi
from pulumi_gcp import projects

from gke_inference.operators.metrics_adapter import ROLE, adapter_principal
from gke_inference.storage.archive_bucket import ArchiveBucket, ArchiveBucketArgs
from infra.plan.project import ProjectPlan
from infra.plan.storage import ArchivePlan


def service_resource(service: str) -> str:
    """Return the name in the program of an API's resource."""
    return f"api-{service.partition('.')[0]}"


def enable_services(project: ProjectPlan) -> list[pulumi.Resource]:
    """Enable the APIs. They stay enabled after a destroy, as others may use them."""
    return [
        projects.Service(
            service_resource(name),
            disable_on_destroy=False,
            project=project.id,
            service=name,
        )
        for name in project.services
    ]


def build_archives(
    archives: Mapping[str, ArchivePlan], project: ProjectPlan, opts: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """Build the buckets for answers that are kept for long."""
    return [
        ArchiveBucket(f"archive-{name}", archive_args(archive, project), opts)
        for name, archive in archives.items()
    ]


def let_adapters_read(project: ProjectPlan, after: list[pulumi.Resource]) -> None:
    """Allow autoscalers to read metrics. All metrics adapters are one principal."""
    projects.IAMMember(
        "metrics-adapter",
        member=adapter_principal(project.id, project.number),
        project=project.id,
        role=ROLE,
        opts=pulumi.ResourceOptions(depends_on=after),
    )


def archive_args(archive: ArchivePlan, project: ProjectPlan) -> ArchiveBucketArgs:
    """Return the arguments of an archive's bucket."""
    args = ArchiveBucketArgs(
        archive=archive.settings,
        bucket_name=archive.bucket,
        force_destroy=not project.is_protected,
        labels=project.labels,
        project=project.id,
    )
    if archive.settings.kms_key is not None:
        args["kms_key"] = archive.settings.kms_key
    return args
