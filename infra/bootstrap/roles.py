"""The APIs that are switched on, and the roles of the CI identities."""

from typing import Final

SERVICES: Final = (
    "artifactregistry.googleapis.com",
    "certificatemanager.googleapis.com",
    "cloudkms.googleapis.com",
    "cloudresourcemanager.googleapis.com",
    "compute.googleapis.com",
    "container.googleapis.com",
    "containerfilesystem.googleapis.com",
    "iam.googleapis.com",
    "iamcredentials.googleapis.com",
    "logging.googleapis.com",
    "monitoring.googleapis.com",
    "networkservices.googleapis.com",
    "serviceusage.googleapis.com",
    "storage.googleapis.com",
    "sts.googleapis.com",
)
"""APIs that the platform's program needs before its first run."""

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
)
"""Roles of the identity that deploys, on the project."""

IMAGE_ROLES: Final = (
    "roles/artifactregistry.admin",
    "roles/binaryauthorization.attestorsAdmin",
    "roles/binaryauthorization.policyAdmin",
    "roles/cloudbuild.builds.editor",
    "roles/cloudkms.admin",
    "roles/containeranalysis.admin",
)
"""Roles beside those, where the stack builds container images."""

PREVIEW_ROLES: Final = (
    "roles/container.viewer",
    "roles/iam.securityReviewer",
    "roles/viewer",
)
"""Roles of the identity that previews, on the project."""
