"""APIs to enable, and roles of the CI identities."""

from typing import Final

PLATFORM_SERVICES: Final = (
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
"""APIs that every platform calls, also through GKE: `containerfilesystem` for image streaming,
`dns` for cluster DNS and records, `containersecurity` for the security posture, `secretmanager` for
the Secret Manager add-on."""

SERVICES: Final = (
    *PLATFORM_SERVICES,
    "artifactregistry.googleapis.com",
    "cloudkms.googleapis.com",
    "cloudquotas.googleapis.com",
    "iamcredentials.googleapis.com",
    "orgpolicy.googleapis.com",
    "serviceusage.googleapis.com",
    "sts.googleapis.com",
)
"""APIs that the platform's program, and the preflight check, need before the first run."""

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
"""Project roles of the deploying identity. The last one is for the check before an `up`."""

IMAGE_ROLES: Final = (
    "roles/artifactregistry.admin",
    "roles/binaryauthorization.attestorsAdmin",
    "roles/binaryauthorization.policyAdmin",
    "roles/cloudbuild.builds.editor",
    "roles/cloudkms.admin",
    "roles/containeranalysis.admin",
)
"""Additional roles if the stack builds container images."""

HOSTNAME_ROLES: Final = (
    "roles/certificatemanager.editor",
    "roles/dns.admin",
)
"""Additional roles if the stack creates the DNS records of its hostname."""

FRONT_ROLES: Final = ("roles/certificatemanager.editor",)
"""Additional roles if the stack has a global front, whose certificate is in a certificate map."""
CERTIFICATE_ROLES: Final = ("roles/certificatemanager.editor", "roles/networksecurity.admin")
"""Additional roles if clients have certificates: a trust configuration and a policy validate them.
`roles/compute.admin` has no permissions of Network Security (docs.cloud.google.com/iam/docs/
roles-permissions/networksecurity and certificatemanager, 2026-11-26)."""

CLIENT_ROLES: Final = (
    "roles/memorystore.admin",
    "roles/networkconnectivity.consumerNetworkAdmin",
)
"""Additional roles if the stack has clients with counters."""

APIGEE_ROLES: Final = ("roles/apigee.developerAdmin",)
"""Additional roles if the stack creates apps in Apigee: it registers developers and reads products
(docs.cloud.google.com/apigee/docs/api-platform/system-administration/apigee-roles)."""
PEOPLE_ROLES: Final = ("roles/iap.admin",)
"""Additional roles if people sign in with Google: the stack grants them access
(docs.cloud.google.com/iap/docs/managing-access)."""
ARMOR_ROLES: Final = ("roles/modelarmor.admin", "roles/modelarmor.floorSettingsAdmin")
"""Additional roles if a guardrail of the stack uses Model Armor."""
BACKEND_ROLES: Final = ("roles/run.admin",)
"""Additional roles if the stack has backends, whose Cloud Run services grant access to its relay,
or a router at its front, which is such a service."""
PERSONAL_ROLES: Final = (
    "roles/pubsub.admin",
    "roles/run.admin",
)
"""Additional roles if the stack has personalized images: it creates a Cloud Run service, topics and
subscriptions, and grants access to each. `roles/run.developer` and `roles/pubsub.editor` cannot set
policies (docs.cloud.google.com/run/docs/securing/managing-access)."""
STREAM_ROLES: Final = ("roles/pubsub.admin",)
"""Additional roles if the stack has Pub/Sub streams."""
PIPELINE_ROLES: Final = ("roles/dataflow.admin", "roles/iam.roleAdmin", "roles/pubsub.admin")
"""Additional roles if the stack has pipelines: it creates jobs, topics, and a custom role for the
subscription by which Dataflow follows the times of events (docs.cloud.google.com/iam/docs/
roles-permissions/dataflow)."""
TABLE_ROLES: Final = ("roles/bigquery.dataOwner",)
"""Additional roles if a stream writes answers to BigQuery: its worker gets access to the table."""

SECRET_ROLE: Final = "roles/secretmanager.admin"  # noqa: S105 - a role
"""Role on the secrets that the stack creates or shares, with a condition that names them. It is the
only predefined role that sets policies of secrets (docs.cloud.google.com/secret-manager/docs/
access-control, 2026-11-26)."""
FILESTORE_ROLES: Final = ("roles/file.editor",)
"""Additional roles if the stack has a Filestore instance."""
LUSTRE_ROLES: Final = ("roles/lustre.admin", "roles/servicenetworking.networksAdmin")
"""Additional roles if the stack has a Managed Lustre instance, which a peering connects."""
FLEET_ROLES: Final = ("roles/gkehub.admin",)
"""Additional roles if clusters join the fleet, for Config Sync or a gateway over them."""

PLATFORM_ROLES: Final = tuple(role for role in DEPLOY_ROLES if role != "roles/monitoring.editor")
"""Roles of the identity that deploys a platform. Serving stacks monitor their own models."""

SERVING_ROLES: Final = (
    "roles/container.clusterViewer",
    "roles/monitoring.editor",
)
"""Roles of the identity that deploys a serving stack. Its cluster permissions are a role in its
team's namespace, which the platform grants to `teams.NAME.deployers`."""

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
"""Project roles of the previewing identity."""
