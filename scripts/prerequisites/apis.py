"""The project's number, APIs, and permissions in the project, its DNS zone and on its budget."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from infra.plan.front import FrontPlan
from infra.stack import Front, Layer
from scripts.prerequisites.finding import Finding, Project, State, enable, judged
from scripts.prerequisites.wanted import secret_versions
from scripts.shared.google_cloud import last

_SERVICES: Final = "serviceusage.googleapis.com/v1/projects"
_PROJECTS: Final = "cloudresourcemanager.googleapis.com/v1/projects"
_SECRETS: Final = "secretmanager.googleapis.com/v1"
_ACCOUNTS: Final = "cloudbilling.googleapis.com/v1/billingAccounts"

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
"""Permissions for a serving stack; the rest is a role in the namespace of its team."""

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
_FRONT: Final = {"certificatemanager.certmaps.create": "roles/certificatemanager.editor"}
_CLIENT_CERTIFICATES: Final = {
    "certificatemanager.trustconfigs.create": "roles/certificatemanager.editor",
    "networksecurity.serverTlsPolicies.create": "roles/networksecurity.admin",
}
_RECORDS: Final = {
    "dns.changes.create": "roles/dns.admin",
    "dns.resourceRecordSets.create": "roles/dns.admin",
}
_PEOPLE: Final = {"iap.webServices.setIamPolicy": "roles/iap.admin"}
_KEYS: Final = {
    "secretmanager.secrets.create": "roles/secretmanager.admin",
    "secretmanager.secrets.setIamPolicy": "roles/secretmanager.admin",
    "secretmanager.versions.access": "roles/secretmanager.admin",
    "secretmanager.versions.add": "roles/secretmanager.admin",
}
"""Permissions for the secret with the client keys: `up` creates it and grants the gate access,
`clients keys` reads and writes versions."""
_UPSTREAMS: Final = {"secretmanager.secrets.setIamPolicy": "roles/secretmanager.admin"}
"""Permission on each secret with the credentials of a registry. Secret Manager returns none for a
secret that does not exist (docs.cloud.google.com/secret-manager/docs/reference/rest)."""
_FILESTORE: Final = {"file.instances.create": "roles/file.editor"}
_LUSTRE: Final = {"lustre.instances.create": "roles/lustre.admin"}
_PEERING: Final = {"servicenetworking.services.addPeering": "roles/servicenetworking.networksAdmin"}
"""Permission for private services access, where the stack makes it for Lustre."""
_BUDGET: Final = {"billing.budgets.create": "roles/billing.costsManager"}


def number(project: Project) -> Iterator[Finding]:
    """Yield whether the stack has the project's number, from which IAM members are built."""
    subject, given = "project number", str(project.number)

    def look() -> Finding:
        found = project.cloud.project_number()
        if not found:
            return Finding(subject, given, State.UNSEEN, "the response has no number")
        if found != given:
            says = f"project_number: must be {found}, the number of {project.id}, got {given}"
            return Finding(subject, given, State.MISSING, says)
        return Finding(subject, given, State.MET, f"the number of {project.id}")

    yield judged(project, subject, given, look)


def apis(project: Project) -> Iterator[Finding]:
    """Yield whether the stack's APIs are enabled, with a row for each disabled API."""
    wanted = project.plan.project.services
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
    """Return the permissions for a deployment of the stack, each with a role that has it."""
    plan, platform = project.plan, project.plan.platform
    if not plan.has_clusters:
        return _SERVING
    makes_network = plan.network.is_created or platform.gateway.front is Front.GLOBAL
    images = platform.images
    is_repository = images is not None and images.repository is not None
    regions = platform.regions.values()
    exists = {
        "compute.networks.create": not makes_network,
        "container.clusters.create": all(each.existing.cluster is not None for each in regions),
        **dict.fromkeys(_WATCHING, platform.layer is Layer.PLATFORM),
    }
    return {
        **{name: role for name, role in _ALWAYS.items() if not exists.get(name, False)},
        **(_IMAGES if is_repository else {}),
        **(_BUILDS if images is not None and images.build is not None else {}),
        **(_ATTESTATION if images is not None and images.is_attested else {}),
        **(_CERTIFICATE if platform.gateway.issue_certificate else {}),
        **(_FRONT if platform.gateway.front is Front.GLOBAL else {}),
        **(_CLIENT_CERTIFICATES if plan.front.certificates is not None else {}),
        **(_RECORDS if project.id in _zone_projects(plan.front) else {}),
        **(_FILESTORE if plan.storage.has_filestore else {}),
        **(_LUSTRE if plan.storage.has_lustre else {}),
        **(_PEERING if plan.storage.services_range is not None else {}),
        **(_PEOPLE if plan.front.people is not None else {}),
        **(_KEYS if plan.clients is not None else {}),
    }


def _secrets(project: Project) -> list[tuple[str, str]]:
    """Return the project and the ID of each secret with the credentials of a registry."""
    found = (each.split("/") for each in secret_versions(project.plan))
    return sorted({(parts[1], parts[3]) for parts in found})


@dataclass(frozen=True)
class _Place:
    """A resource on which a deployment needs permissions."""

    url: str
    binding: str
    """Command that binds a role, without member and role."""
    where: str
    """Suffix of the rows; empty for the stack's project."""
    wanted: Mapping[str, str]


def permissions(project: Project) -> Iterator[Finding]:
    """Yield whether the caller may deploy the stack, with a row for each missing permission."""
    for place in _places(project):
        yield from _permissions(project, place)


def _places(project: Project) -> Iterator[_Place]:
    platform = project.plan.platform

    def in_project(owner: str, where: str, wanted: Mapping[str, str]) -> _Place:
        binding = f"gcloud projects add-iam-policy-binding {owner}"
        return _Place(f"{_PROJECTS}/{owner}", binding, where, wanted)

    yield in_project(project.id, "", permissions_of(project))
    if not project.plan.has_clusters:
        return
    for owner in _zone_projects(project.plan.front):
        if owner != project.id:
            yield in_project(owner, f" in {owner}", _RECORDS)
    for owner, secret in _secrets(project):
        yield _Place(
            f"{_SECRETS}/projects/{owner}/secrets/{secret}",
            f"gcloud secrets add-iam-policy-binding {secret} --project={owner}",
            f" on secret {secret} of {owner}",
            _UPSTREAMS,
        )
    if platform.budget is not None:
        account = platform.budget.billing_account
        yield _Place(
            f"{_ACCOUNTS}/{account}",
            f"gcloud billing accounts add-iam-policy-binding {account}",
            f" on billing account {account}",
            _BUDGET,
        )


def _zone_projects(front: FrontPlan) -> list[str]:
    """Return the projects of the zones in which `up` creates records."""
    zones = (front.record_zone, front.certificate_zone)
    return list(dict.fromkeys(zone.project for zone in zones if zone is not None))


def _permissions(project: Project, place: _Place) -> Iterator[Finding]:
    wanted, subject = place.wanted, "permission"
    missing: list[str] = []

    def titled(count: int) -> str:
        return f"{count} permission{'' if count == 1 else 's'}{place.where}"

    def look() -> Finding:
        answer = project.cloud.query(
            f"{place.url}:testIamPermissions", {"permissions": sorted(wanted)}
        )
        granted = set(answer.get("permissions", []))
        missing.extend(each for each in sorted(wanted) if each not in granted)
        says = "these credentials can deploy the stack"
        return Finding(subject, titled(len(wanted) - len(missing)), State.MET, says)

    finding = judged(project, subject, titled(len(wanted)), look)
    if len(missing) < len(wanted):
        yield finding
    for each in missing:
        command = f"{place.binding} --member=MEMBER --role={wanted[each]}"
        name = f"{each}{place.where}"
        yield Finding(subject, name, State.MISSING, "these credentials lack it", command)
