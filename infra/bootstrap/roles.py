"""The APIs that are switched on, and the roles of the CI identities."""

from typing import Final

SERVICES: Final = (
    "artifactregistry.googleapis.com",
    "certificatemanager.googleapis.com",
    "cloudkms.googleapis.com",
    "cloudquotas.googleapis.com",
    "cloudresourcemanager.googleapis.com",
    "compute.googleapis.com",
    "container.googleapis.com",
    "containerfilesystem.googleapis.com",
    "containersecurity.googleapis.com",
    "dns.googleapis.com",
    "iam.googleapis.com",
    "iamcredentials.googleapis.com",
    "logging.googleapis.com",
    "monitoring.googleapis.com",
    "networkservices.googleapis.com",
    "orgpolicy.googleapis.com",
    "secretmanager.googleapis.com",
    "serviceusage.googleapis.com",
    "storage.googleapis.com",
    "sts.googleapis.com",
)
"""APIs that the platform's program, and the check before it, need before the first run."""

DEPLOY_ROLES: Final = (
    "roles/cloudkms.viewer",
    "roles/compute.admin",
    "roles/container.admin",
    "roles/iam.serviceAccountAdmin",
    "roles/iam.serviceAccountUser",
    "roles/monitoring.editor",
    "roles/resourcemanager.projectIamAdmin",
    "roles/serviceusage.serviceUsageAdmin",
    "roles/storage.admin",
    "roles/viewer",
)
"""Roles of the identity that deploys, on the project; the last is for the check before an `up`."""

IMAGE_ROLES: Final = (
    "roles/artifactregistry.admin",
    "roles/binaryauthorization.attestorsAdmin",
    "roles/binaryauthorization.policyAdmin",
    "roles/cloudbuild.builds.editor",
    "roles/cloudkms.admin",
    "roles/containeranalysis.admin",
)
"""Roles beside those, where the stack builds container images."""

HOSTNAME_ROLES: Final = (
    "roles/certificatemanager.editor",
    "roles/dns.admin",
)
"""Roles beside those, where the stack makes the records of its host name."""

CLIENT_ROLES: Final = (
    "roles/memorystore.admin",
    "roles/networkconnectivity.consumerNetworkAdmin",
    "roles/secretmanager.admin",
)
"""Roles beside those, where the stack has clients with keys and counters."""

ARMOR_ROLES: Final = ("roles/modelarmor.admin", "roles/modelarmor.floorSettingsAdmin")
"""Roles beside those, where a guardrail of the stack is Model Armor."""
BACKEND_ROLES: Final = (
    "roles/run.admin",
    "roles/secretmanager.admin",
)
"""Roles beside those, where models of the stack run elsewhere: services of Cloud Run let its relay
call, and API keys have secrets."""
STREAM_ROLES: Final = ("roles/pubsub.admin",)
"""Roles beside those, where the stack has streams of Pub/Sub."""
TABLE_ROLES: Final = ("roles/bigquery.dataOwner",)
"""Roles beside those, where answers of a stream are rows: its worker is let into the table."""

FILESTORE_ROLES: Final = ("roles/file.editor",)
"""Roles beside those, where adapters of the stack are on Filestore."""
DELIVERY_ROLES: Final = ("roles/gkehub.admin",)
"""Roles beside those, where Config Sync delivers models: clusters join the fleet."""

PLATFORM_ROLES: Final = tuple(role for role in DEPLOY_ROLES if role != "roles/monitoring.editor")
"""Roles of the identity that deploys a platform: serving stacks watch their models themselves."""

SERVING_ROLES: Final = (
    "roles/container.clusterViewer",
    "roles/monitoring.editor",
)
"""Roles of the identity that deploys a serving stack. What it may do in a cluster is a role in its
team's namespace, which the platform gives to `teams.NAME.deployers`."""

SERVING_PREVIEW_ROLES: Final = (
    "roles/container.viewer",
    "roles/monitoring.viewer",
)
"""Roles of the identity that previews a serving stack."""

PREVIEW_ROLES: Final = (
    "roles/container.viewer",
    "roles/iam.securityReviewer",
    "roles/viewer",
)
"""Roles of the identity that previews, on the project."""
