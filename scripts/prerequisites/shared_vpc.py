"""Grants of a Shared VPC host project to the service agents of a service project."""

from collections.abc import Iterator
from typing import Final

from scripts.prerequisites.finding import Finding, Project, State, judged
from scripts.shared.google_cloud import CloudError, Json

_COMPUTE: Final = "compute.googleapis.com/compute/v1"
_PROJECTS: Final = "cloudresourcemanager.googleapis.com/v1/projects"
_NETWORK_USER: Final = "roles/compute.networkUser"
_HOST_AGENT: Final = "roles/container.hostServiceAgentUser"


def shared_vpc(project: Project) -> Iterator[Finding]:
    """Yield whether the project is attached to the host and its agents have their roles.

    docs.cloud.google.com/kubernetes-engine/docs/how-to/cluster-shared-vpc (2026-11-22).
    """
    host = project.plan.network.host_project
    if host is None:
        return
    yield _attached(project, host)
    gke = f"serviceAccount:service-{project.number}@container-engine-robot.iam.gserviceaccount.com"
    apis = f"serviceAccount:{project.number}@cloudservices.gserviceaccount.com"
    for region in project.plan.platform.regions.values():
        if region.existing.subnet is not None:
            for member in (gke, apis):
                yield _granted(project, host, _NETWORK_USER, member, region.existing.subnet.name)
    yield _granted(project, host, _HOST_AGENT, gke, None)


def _attached(project: Project, host: str) -> Finding:
    subject, name = "Shared VPC", f"{project.id} in {host}"
    command = (
        f"gcloud compute shared-vpc associated-projects add {project.id} --host-project={host}"
    )

    def look() -> Finding:
        found = project.cloud.get(f"{_COMPUTE}/projects/{project.id}/getXpnHost")
        of = found.get("name")
        if of == host:
            return Finding(subject, name, State.MET, "is a service project of the host")
        says = f"is a service project of {of}" if of else "is not a service project"
        return Finding(subject, name, State.MISSING, f"{says}; must be of {host}", command)

    return judged(project, subject, name, look)


def _granted(project: Project, host: str, role: str, member: str, subnet: str | None) -> Finding:
    """Return whether a member has a role, granted directly on a subnet or the host project."""
    where = host if subnet is None else subnet
    subject, name = "role", f"{role} of {member.partition(':')[2]} on {where}"

    def look() -> Finding:
        policies = [f"{_PROJECTS}/{host}:getIamPolicy"]
        if subnet is not None:
            policies.insert(0, f"{_COMPUTE}/{subnet}/getIamPolicy")
        refusals: list[CloudError] = []
        for url in policies:
            try:
                policy = (
                    project.cloud.query(url, {})
                    if url.endswith(":getIamPolicy")
                    else project.cloud.get(url)
                )
            except CloudError as error:
                refusals.append(error)
                continue
            if _has(policy, role, member):
                return Finding(subject, name, State.MET, "is granted")
        if refusals:  # the role may be granted on either
            raise refusals[0]
        return Finding(subject, name, State.MISSING, "is not granted", _grant(role, member, subnet))

    def _grant(role: str, member: str, subnet: str | None) -> str:
        binding = f"--member={member} --role={role}"
        if subnet is None:
            return f"gcloud projects add-iam-policy-binding {host} {binding}"
        _, _, _, region, _, short = subnet.split("/")
        return (
            f"gcloud compute networks subnets add-iam-policy-binding {short} --project={host}"
            f" --region={region} {binding}"
        )

    return judged(project, subject, name, look)


def _has(policy: Json, role: str, member: str) -> bool:
    return any(
        each.get("role") == role and member in each.get("members", []) and "condition" not in each
        for each in policy.get("bindings", [])
    )
