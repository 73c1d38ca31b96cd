"""What the whole project gets: APIs before anything else, and a role once clusters are there."""

from typing import Final

import pulumi
from pulumi_gcp import projects

from gke_inference.metrics_adapter import ROLE, adapter_principal
from infra.stack import Platform

SERVICES: Final = (
    "certificatemanager.googleapis.com",
    "cloudresourcemanager.googleapis.com",
    "compute.googleapis.com",
    "container.googleapis.com",
    "containerfilesystem.googleapis.com",
    "iam.googleapis.com",
    "logging.googleapis.com",
    "monitoring.googleapis.com",
    "networkservices.googleapis.com",
    "storage.googleapis.com",
)
"""APIs that the platform calls, itself or through GKE; image streaming is `containerfilesystem`."""

TRACE_SERVICES: Final = ("cloudtrace.googleapis.com", "telemetry.googleapis.com")
"""APIs that take spans, where the stack has traces."""


def enable_services(platform: Platform) -> list[pulumi.Resource]:
    """Switch the APIs on; they stay on when the platform goes, as others may use them."""
    return [
        projects.Service(
            f"api-{name.split('.')[0]}",
            disable_on_destroy=False,
            project=platform.project,
            service=name,
        )
        for name in (*SERVICES, *(TRACE_SERVICES if platform.monitoring.traces else ()))
    ]


def let_adapters_read(platform: Platform, after: list[pulumi.Resource]) -> None:
    """Let autoscalers read metrics: one grant, as all clusters' adapters are one principal."""
    if platform.monitoring.metrics_adapter:
        projects.IAMMember(
            "metrics-adapter",
            member=adapter_principal(platform.project, str(platform.project_number)),
            project=platform.project,
            role=ROLE,
            opts=pulumi.ResourceOptions(depends_on=after),
        )
