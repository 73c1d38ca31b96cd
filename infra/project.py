"""What is switched on in the project before anything else is made."""

from typing import Final

import pulumi
from pulumi_gcp import projects

from infra.stack import Platform

SERVICES: Final = (
    "certificatemanager.googleapis.com",
    "compute.googleapis.com",
    "container.googleapis.com",
    "iam.googleapis.com",
    "logging.googleapis.com",
    "monitoring.googleapis.com",
    "networkservices.googleapis.com",
    "storage.googleapis.com",
)
"""APIs that the platform calls, itself or through GKE."""


def enable_services(platform: Platform) -> list[pulumi.Resource]:
    """Switch the APIs on; they stay on when the platform goes, as others may use them."""
    return [
        projects.Service(
            f"api-{name.split('.')[0]}",
            disable_on_destroy=False,
            project=platform.project,
            service=name,
        )
        for name in SERVICES
    ]
