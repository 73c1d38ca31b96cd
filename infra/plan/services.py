"""The APIs that a stack calls."""

from collections.abc import Sequence
from typing import Final

from infra.bootstrap.roles import PLATFORM_SERVICES
from infra.plan.backends import BackendsPlan
from infra.plan.clients import ClientsPlan
from infra.plan.front import FrontPlan
from infra.plan.guardrails import GuardrailsPlan
from infra.plan.storage import StoragePlan
from infra.plan.streams import StreamPlan
from infra.stack import BackendKind, Platform

TRACE_SERVICES: Final = ("cloudtrace.googleapis.com", "telemetry.googleapis.com")
"""APIs that receive spans, if the stack has traces."""


IMAGE_SERVICES: Final = (
    "artifactregistry.googleapis.com",
    "containeranalysis.googleapis.com",
    "containerscanning.googleapis.com",
)
"""APIs of a repository with image scanning, if the stack has one."""

BUDGET_SERVICES: Final = ("billingbudgets.googleapis.com",)
"""API of budgets, if the stack has one."""

BUILD_SERVICES: Final = ("cloudbuild.googleapis.com", "ondemandscanning.googleapis.com")
"""APIs of image builds, if the stack has them."""

CLIENT_SERVICES: Final = ("memorystore.googleapis.com", "networkconnectivity.googleapis.com")
"""APIs of the client stores: shared counters and cached answers."""

CERTIFICATE_SERVICES: Final = ("networksecurity.googleapis.com",)
"""API of the policy that validates client certificates."""

PEOPLE_SERVICES: Final = ("iap.googleapis.com",)
"""API of Identity-Aware Proxy, if people sign in."""

ARMOR_SERVICES: Final = ("modelarmor.googleapis.com",)
"""API of Model Armor, if a guardrail uses it."""

VERTEX_SERVICES: Final = ("aiplatform.googleapis.com",)
"""API of Vertex AI backends in the stack's own project."""

ID_TOKEN_SERVICES: Final = ("iamcredentials.googleapis.com",)
"""API of the ID tokens that Cloud Run requires."""

RUN_SERVICES: Final = ("run.googleapis.com",)
"""API of Cloud Run, if the stack creates services: of backends, or of the front's router."""

PERSONAL_SERVICES: Final = (
    "iamcredentials.googleapis.com",
    "pubsub.googleapis.com",
    "run.googleapis.com",
)
"""APIs of personalized images: signatures, messages and the service."""

STREAM_SERVICES: Final = ("pubsub.googleapis.com",)
"""API of Pub/Sub, if a stream uses it."""

PIPELINE_SERVICES: Final = ("dataflow.googleapis.com", "pubsub.googleapis.com")
"""APIs of pipelines, if the stack has one."""

FILESTORE_SERVICES: Final = ("file.googleapis.com",)
"""API of Filestore, if the stack has an instance."""
LUSTRE_SERVICES: Final = ("lustre.googleapis.com", "servicenetworking.googleapis.com")
"""APIs of Managed Lustre and of the peering that connects it, if the stack has an instance."""
DELIVERY_SERVICES: Final = ("anthosconfigmanagement.googleapis.com", "gkehub.googleapis.com")
"""APIs of the fleet and of Config Sync, if it delivers models."""
APIGEE_SERVICES: Final = ("apigee.googleapis.com",)
"""API of Apigee, if it checks clients."""
FLEET_SERVICES: Final = (
    "autoscaling.googleapis.com",
    "gkehub.googleapis.com",
    "multiclusteringress.googleapis.com",
    "multiclusterservicediscovery.googleapis.com",
    "trafficdirector.googleapis.com",
)
"""APIs of a gateway over all clusters, if it is the front."""

ATTESTATION_SERVICES: Final = ("binaryauthorization.googleapis.com", "cloudkms.googleapis.com")
"""APIs of attestations, if the stack uses them."""


def resolve_services(
    platform: Platform,
    storage: StoragePlan,
    front: FrontPlan,
    clients: ClientsPlan | None,
    guardrails: GuardrailsPlan,
    backends: BackendsPlan | None,
    streams: Sequence[StreamPlan],
) -> tuple[str, ...]:
    """Return the APIs that a stack calls, each once."""
    images = platform.images
    has_stores = clients is not None and (clients.has_counters or clients.settings.cache)
    kinds: set[BackendKind] = set() if backends is None else backends.kinds
    found = (
        *PLATFORM_SERVICES,
        *(TRACE_SERVICES if platform.monitoring.traces else ()),
        *(BUDGET_SERVICES if platform.budget is not None else ()),
        *(APIGEE_SERVICES if platform.apigee() is not None else ()),
        *(CLIENT_SERVICES if has_stores else ()),
        *(CERTIFICATE_SERVICES if front.certificates is not None else ()),
        *(PEOPLE_SERVICES if front.people is not None else ()),
        *(ARMOR_SERVICES if guardrails.needs_armor else ()),
        *(VERTEX_SERVICES if BackendKind.VERTEX in kinds else ()),
        *(ID_TOKEN_SERVICES if BackendKind.CLOUD_RUN in kinds else ()),
        *(RUN_SERVICES if front.router or (backends is not None and backends.services) else ()),
        *(STREAM_SERVICES if any(not each.is_kafka for each in streams) else ()),
        *(PIPELINE_SERVICES if platform.pipelines else ()),
        *(FILESTORE_SERVICES if storage.has_filestore else ()),
        *(LUSTRE_SERVICES if storage.has_lustre else ()),
        *(DELIVERY_SERVICES if platform.has_config_sync() else ()),
        *(FLEET_SERVICES if front.gateway.has_fleet_gateway else ()),
        *(IMAGE_SERVICES if images is not None else ()),
        *(BUILD_SERVICES if images is not None and images.build is not None else ()),
        *(ATTESTATION_SERVICES if images is not None and images.is_attested else ()),
        *(PERSONAL_SERVICES if platform.personal_images is not None else ()),
    )
    return tuple(dict.fromkeys(found))
