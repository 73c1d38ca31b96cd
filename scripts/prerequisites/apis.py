"""APIs that must be on, and what the caller may do in the project."""

from collections.abc import Iterator
from typing import Final

from infra.project import services_of
from infra.stack import Layer
from scripts.prerequisites.finding import Finding, Project, State, enable, judged
from scripts.shared.google_cloud import last

_SERVICES: Final = "serviceusage.googleapis.com/v1/projects"
_PROJECTS: Final = "cloudresourcemanager.googleapis.com/v1/projects"

_ALWAYS: Final = {
    "compute.networks.create": "roles/compute.admin",
    "container.clusters.create": "roles/container.admin",
    "iam.serviceAccounts.actAs": "roles/iam.serviceAccountUser",
    "iam.serviceAccounts.create": "roles/iam.serviceAccountAdmin",
    "monitoring.alertPolicies.create": "roles/monitoring.editor",
    "resourcemanager.projects.setIamPolicy": "roles/resourcemanager.projectIamAdmin",
    "serviceusage.services.enable": "roles/serviceusage.serviceUsageAdmin",
    "storage.buckets.create": "roles/storage.admin",
}
"""A permission that a deployment uses, and the predefined role of `bootstrap` that has it
(docs.cloud.google.com/iam/docs/roles-permissions, 2026-11-22)."""

_WATCHING: Final = tuple(name for name in _ALWAYS if name.startswith("monitoring."))
_SERVING: Final = {
    "container.clusters.connect": "roles/container.clusterViewer",
    **{name: _ALWAYS[name] for name in _WATCHING},
}
"""What a deployment of a serving stack uses: the rest is a role in the namespace of its team."""

_IMAGES: Final = {
    "artifactregistry.repositories.create": "roles/artifactregistry.admin",
}
_BUILDS: Final = {"cloudbuild.builds.create": "roles/cloudbuild.builds.editor"}
_ATTESTATION: Final = {
    "binaryauthorization.attestors.create": "roles/binaryauthorization.attestorsAdmin",
    "binaryauthorization.policy.update": "roles/binaryauthorization.policyAdmin",
    "cloudkms.cryptoKeys.create": "roles/cloudkms.admin",
    "containeranalysis.notes.create": "roles/containeranalysis.admin",
}
_CERTIFICATE: Final = {"certificatemanager.certs.create": "roles/certificatemanager.editor"}
_RECORDS: Final = {"dns.resourceRecordSets.create": "roles/dns.admin"}


def apis(project: Project) -> Iterator[Finding]:
    """Yield whether the APIs of the stack are on, a row for each that is not."""
    wanted = services_of(project.plan.platform)
    subject, name = "API", f"{len(wanted)} APIs"
    missing: list[str] = []

    def look() -> Finding:
        found = project.cloud.pages(
            f"{_SERVICES}/{project.id}/services",
            "services",
            filter="state:ENABLED",
            pageSize="200",
        )
        enabled = {last(each.get("name")) for each in found}
        missing.extend(each for each in wanted if each not in enabled)
        return Finding(
            subject, f"{len(wanted) - len(missing)} APIs", State.MET, "enabled in the project"
        )

    finding = judged(project, subject, name, look)
    if len(missing) < len(wanted):
        yield finding
    for each in missing:
        yield Finding(
            subject, each, State.MISSING, "not enabled in the project", enable(project, [each])
        )


def permissions_of(project: Project) -> dict[str, str]:
    """Return the permissions that a deployment of the stack uses, each with a role that has it."""
    platform = project.plan.platform
    if platform.layer is Layer.SERVING:
        return _SERVING
    images, dns = platform.images, platform.gateway.dns
    is_own_zone = dns is not None and dns.project in {None, project.id}
    is_repository = images is not None and images.repository is not None
    regions = platform.regions.values()
    exists = {
        "compute.networks.create": platform.existing.network is not None,
        "container.clusters.create": all(each.existing.cluster is not None for each in regions),
        **dict.fromkeys(_WATCHING, platform.layer is Layer.PLATFORM),
    }
    return {
        **{name: role for name, role in _ALWAYS.items() if not exists.get(name, False)},
        **(_IMAGES if is_repository else {}),
        **(_BUILDS if images is not None and images.build is not None else {}),
        **(_ATTESTATION if images is not None and images.is_attested else {}),
        **(_CERTIFICATE if platform.gateway.issue_certificate else {}),
        **(_RECORDS if is_own_zone else {}),
    }


def permissions(project: Project) -> Iterator[Finding]:
    """Yield whether the caller may deploy the stack, a row for each permission it lacks."""
    wanted = permissions_of(project)
    subject = "permission"
    missing: list[str] = []

    def look() -> Finding:
        answer = project.cloud.query(
            f"{_PROJECTS}/{project.id}:testIamPermissions", {"permissions": sorted(wanted)}
        )
        granted = set(answer.get("permissions", []))
        missing.extend(each for each in sorted(wanted) if each not in granted)
        return Finding(
            subject,
            f"{len(wanted) - len(missing)} permissions",
            State.MET,
            "these credentials have what a deployment uses",
        )

    finding = judged(project, subject, f"{len(wanted)} permissions", look)
    if len(missing) < len(wanted):
        yield finding
    for each in missing:
        command = (
            f"gcloud projects add-iam-policy-binding {project.id} --member=MEMBER"
            f" --role={wanted[each]}"
        )
        yield Finding(subject, each, State.MISSING, "these credentials do not have it", command)
