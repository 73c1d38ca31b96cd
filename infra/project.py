"""What the whole project gets: APIs before anything else, and a role once clusters are there."""

from typing import Final

import pulumi
from pulumi_gcp import projects

from gke_inference.operators.metrics_adapter import ROLE, adapter_principal
from infra.plan.backends import kinds_of
from infra.plan.clients import cached, has_counters
from infra.plan.delivery import has_config_sync
from infra.plan.filestore import has_filestore
from infra.plan.guardrails import floor_of, has_armor
from infra.plan.streams import has_topics
from infra.stack import BackendKind, Platform

SERVICES: Final = (
    "certificatemanager.googleapis.com",
    "cloudresourcemanager.googleapis.com",
    "compute.googleapis.com",
    "container.googleapis.com",
    "containerfilesystem.googleapis.com",
    "containersecurity.googleapis.com",
    "dns.googleapis.com",
    "iam.googleapis.com",
    "logging.googleapis.com",
    "monitoring.googleapis.com",
    "networkservices.googleapis.com",
    "secretmanager.googleapis.com",
    "storage.googleapis.com",
)
"""APIs that the platform calls, itself or through GKE: image streaming is `containerfilesystem`,
names inside a cluster and records `dns`, the security posture `containersecurity`, the add-on for
secrets `secretmanager`."""

TRACE_SERVICES: Final = ("cloudtrace.googleapis.com", "telemetry.googleapis.com")
"""APIs that take spans, where the stack has traces."""


IMAGE_SERVICES: Final = (
    "artifactregistry.googleapis.com",
    "containeranalysis.googleapis.com",
    "containerscanning.googleapis.com",
)
"""APIs of a repository whose images are scanned, where the stack has one."""

BUDGET_SERVICES: Final = ("billingbudgets.googleapis.com",)
"""API of budgets, where the stack has one."""

BUILD_SERVICES: Final = ("cloudbuild.googleapis.com", "ondemandscanning.googleapis.com")
"""APIs of builds, where the stack has them."""

CLIENT_SERVICES: Final = ("memorystore.googleapis.com", "networkconnectivity.googleapis.com")
"""APIs of the stores of clients: counters that replicas share, and answers."""

ARMOR_SERVICES: Final = ("modelarmor.googleapis.com",)
"""API of Model Armor, where a guardrail is of this kind."""

VERTEX_SERVICES: Final = ("aiplatform.googleapis.com",)
"""API of backends at Vertex AI, in the stack's own project."""

ID_TOKEN_SERVICES: Final = ("iamcredentials.googleapis.com",)
"""API of the tokens that Cloud Run asks for."""

STREAM_SERVICES: Final = ("pubsub.googleapis.com",)
"""API of topics and subscriptions, where the stack has streams of them."""

FILESTORE_SERVICES: Final = ("file.googleapis.com",)
"""API of Filestore, where adapters are on it."""
DELIVERY_SERVICES: Final = ("anthosconfigmanagement.googleapis.com", "gkehub.googleapis.com")
"""APIs of the fleet and of Config Sync, where it delivers models."""

ATTESTATION_SERVICES: Final = ("binaryauthorization.googleapis.com", "cloudkms.googleapis.com")
"""APIs of attestations, where the stack looks for them."""


def services_of(platform: Platform) -> tuple[str, ...]:
    """Return the APIs that a platform calls, each once."""
    images = platform.images
    return (
        *SERVICES,
        *(TRACE_SERVICES if platform.monitoring.traces else ()),
        *(BUDGET_SERVICES if platform.budget is not None else ()),
        *(CLIENT_SERVICES if has_counters(platform) or cached(platform) else ()),
        *(ARMOR_SERVICES if has_armor(platform) or floor_of(platform) else ()),
        *(VERTEX_SERVICES if BackendKind.VERTEX in kinds_of(platform) else ()),
        *(ID_TOKEN_SERVICES if BackendKind.CLOUD_RUN in kinds_of(platform) else ()),
        *(STREAM_SERVICES if has_topics(platform) else ()),
        *(FILESTORE_SERVICES if has_filestore(platform) else ()),
        *(DELIVERY_SERVICES if has_config_sync(platform) else ()),
        *(IMAGE_SERVICES if images is not None else ()),
        *(BUILD_SERVICES if images is not None and images.build is not None else ()),
        *(ATTESTATION_SERVICES if images is not None and images.is_attested else ()),
    )


def enable_services(platform: Platform) -> list[pulumi.Resource]:
    """Switch the APIs on; they stay on when the platform goes, as others may use them."""
    return [
        projects.Service(
            f"api-{name.split('.')[0]}",
            disable_on_destroy=False,
            project=platform.project,
            service=name,
        )
        for name in services_of(platform)
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
