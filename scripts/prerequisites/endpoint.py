"""The gateway's certificate in each region, the DNS records of its hostnames, and its sign-in."""

import shlex
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from infra.plan.front import Zone
from infra.stack import Exposure, Front
from scripts.prerequisites.finding import Finding, Project, State, judged
from scripts.shared.google_cloud import CloudError, NotFound

_CERTIFICATES: Final = "certificatemanager.googleapis.com/v1/projects"
_DNS: Final = "dns.googleapis.com/dns/v1/projects"
_BACKENDS: Final = "compute.googleapis.com/compute/v1/projects/{project}/global/backendServices"


def certificates(project: Project) -> Iterator[Finding]:
    """Yield whether the gateway's certificate is ACTIVE in each region, and for the front.

    A regional gateway cannot use certificates of other regions or global ones, and a gateway over
    all clusters cannot use regional ones.
    """
    gateway = project.plan.platform.gateway
    if gateway.certificate is None or gateway.hostname is None:
        return
    regions = [] if gateway.has_fleet_gateway else [*project.plan.regions]
    everywhere = ["global"] if gateway.front in (Front.GLOBAL, Front.INTERNAL) else []
    for location in [*regions, *everywhere]:
        hostnames = _hostnames(project, with_people=location == "global")
        yield _certificate(project, gateway.certificate, hostnames, location)


def _hostnames(project: Project, *, with_people: bool) -> list[str]:
    """Return the hostname of the gateway, those of teams, and that of people, if there are any.

    The front replaces the hostname of people, so regional gateways never see it.
    """
    front = project.plan.front
    people = front.people if with_people else None
    return [*front.hostnames, *([] if people is None else [people.hostname])]


def _certificate(project: Project, certificate: str, hostnames: list[str], region: str) -> Finding:
    subject, name = "certificate", f"{certificate} in {region}"
    is_made = project.plan.platform.gateway.issue_certificate
    is_wide = project.plan.platform.gateway.has_fleet_gateway
    command = (
        f"gcloud certificate-manager certificates create {certificate} --project={project.id}"
        f" --location={region} --domains={shlex.quote(','.join(hostnames))}"
        f" --dns-authorizations=AUTHORIZATION{' --scope=all-regions' if is_wide else ''}"
    )

    def look() -> Finding:
        where = f"projects/{project.id}/locations/{region}/certificates/{certificate}"
        try:
            url = f"{_CERTIFICATES}{where.removeprefix('projects')}"
            found = project.cloud.get(url)
        except NotFound:
            if is_made:
                return Finding(subject, name, State.LATER, "`up` makes it")
            says = "does not exist; gateway.issue_certificate creates one with DNS authorization"
            return Finding(subject, name, State.MISSING, says, command)
        now = datetime.now(UTC)
        problems = [certificate_problem(found, hostname, now) for hostname in hostnames]
        problem = next(filter(None, problems), "")
        if is_wide and found.get("scope") != "ALL_REGIONS":
            problem = f"has the scope {found.get('scope', 'DEFAULT')}; must be ALL_REGIONS"
        if problem:
            return Finding(subject, name, State.MISSING, problem)
        served = ", ".join(hostnames)
        says = f"ACTIVE for {served}" if "managed" in found else f"uploaded, for {served}"
        return Finding(subject, name, State.MET, says)

    return judged(project, subject, name, look)


def certificate_problem(found: Mapping[str, Any], hostname: str, now: datetime) -> str:
    """Return why a certificate does not serve a host; empty if it does.

    Fields: docs.cloud.google.com/certificate-manager/docs/reference/certificate-manager/rest/v1/
    projects.locations.certificates (2026-11-22).
    """
    managed: dict[str, Any] = found.get("managed", {})
    names: list[str] = found.get("sanDnsnames") or managed.get("domains") or []
    if not any(_covers(each, hostname) for each in names):
        return f"is for {', '.join(names) or 'no host'}; must be for {hostname}"
    if "managed" in found and managed.get("state") != "ACTIVE":
        issue = managed.get("provisioningIssue", {})
        attempts = managed.get("authorizationAttemptInfo", [])
        details = [issue.get("reason"), issue.get("details")]
        details += [each.get("failureReason") for each in attempts]
        why = ", ".join(str(each) for each in details if each)
        state = managed.get("state", "STATE_UNSPECIFIED")
        return f"is {state}; must be ACTIVE{f' ({why})' if why else ''}"
    expires = found.get("expireTime")
    if expires is not None and datetime.fromisoformat(str(expires)) <= now:
        return f"expired at {expires}"
    return ""


def _covers(name: str, hostname: str) -> bool:
    if name.startswith("*."):
        return hostname.partition(".")[2] == name[2:]
    return name == hostname


def records(project: Project) -> Iterator[Finding]:
    """Yield whether the hostnames, if any, lead to the gateway."""
    gateway = project.plan.platform.gateway
    if gateway.hostname is None:
        return
    hostnames = _hostnames(project, with_people=True)
    if gateway.dns is not None:
        zone, proof = project.plan.front.record_zone, project.plan.front.certificate_zone
        is_public = gateway.exposure is Exposure.EXTERNAL or zone == proof
        wanted = "private" if gateway.needs_private_zone else "public" if is_public else ""
        if zone is not None:
            yield _zone(project, zone, hostnames, wanted)
        if proof is not None and proof != zone:
            yield _zone(project, proof, [gateway.hostname], "public")
    else:
        for hostname in hostnames:
            yield _record(project, hostname)


def _zone(project: Project, zone: Zone, hostnames: list[str], visibility: str) -> Finding:
    """Return whether a zone exists and can hold the records that `up` writes.

    Args:
        project: The project.
        zone: The zone.
        hostnames: Hostnames of the records.
        visibility: `public` or `private` if it must be; empty if both are usable.
    """
    owner = zone.project
    subject, name = "DNS zone", f"{zone.name} of {owner}"
    parent = hostnames[0].partition(".")[2]

    def look() -> Finding:
        try:
            found = project.cloud.get(f"{_DNS}/{owner}/managedZones/{zone.name}")
        except NotFound:
            command = (
                f"gcloud dns managed-zones create {zone.name} --project={owner}"
                f" --dns-name={parent}. --description=inference"
            )
            if visibility == "private":
                command += " --visibility=private --networks=NETWORK"
            return Finding(subject, name, State.MISSING, "there is none", command)
        of = str(found.get("dnsName", "")).rstrip(".")
        others = [each for each in hostnames if each != of and not each.endswith(f".{of}")]
        if others:
            says = f"is for {of}; must be for a domain of {others[0]}"
            return Finding(subject, name, State.MISSING, says)
        seen = found.get("visibility", "public")
        if visibility and seen != visibility:
            says = f"is {seen}; must be {visibility}{_why(project, zone)}"
            return Finding(subject, name, State.MISSING, says)
        return Finding(subject, name, State.MET, f"is for {of}; `up` creates the records")

    return judged(project, subject, name, look)


def _why(project: Project, zone: Zone) -> str:
    front = project.plan.front
    if front.gateway.exposure is Exposure.EXTERNAL:
        return ", as the gateway is external"
    if zone == front.certificate_zone:
        other = "" if zone != front.record_zone else ", or set gateway.dns.certificate_zone"
        return f", as Google's certificate authority looks its record up{other}"
    return ", as Cloud DNS checks internal load balancers for private zones only"


def _record(project: Project, hostname: str) -> Finding:
    """Return whether a name that is managed elsewhere leads to the gateways' addresses."""
    subject = "DNS record"

    def look() -> Finding:
        wanted = _addresses(project)
        if not wanted:
            says = "`up` reserves the address; create the record afterwards, or set gateway.dns"
            return Finding(subject, hostname, State.LATER, says)
        found = project.resolve(hostname)
        missing = [each for each in wanted.values() if each not in found]
        if not missing:
            return Finding(subject, hostname, State.MET, f"leads to {', '.join(sorted(found))}")
        says = f"leads to {', '.join(sorted(found)) or 'nothing'}; must lead to "
        command = (
            f"gcloud dns record-sets create {hostname}. --project={project.id} --zone=ZONE"
            f" --type=A --ttl=300 --rrdatas={','.join(wanted.values())}"
        )
        return Finding(subject, hostname, State.MISSING, says + ", ".join(missing), command)

    return judged(project, subject, hostname, look)


def _addresses(project: Project) -> dict[str, str]:
    """Return the reserved addresses for clients, by region.

    A global front has one address, and clients do not use the regional addresses.

    Raises:
        CloudError: Google refuses.
    """
    platform = project.plan.platform
    address, places = (
        project.plan.names.address(),
        {name: f"regions/{name}" for name in platform.regions},
    )
    if platform.gateway.front is Front.GLOBAL:
        address, places = project.plan.names.front(), {"global": "global"}
    found: dict[str, str] = {}
    for region, place in places.items():
        url = f"compute.googleapis.com/compute/v1/projects/{project.id}/{place}/addresses"
        try:
            answer = project.cloud.get(f"{url}/{address}")
        except NotFound:
            continue
        if "address" not in answer:
            raise CloudError(f"{address} in {region}: the response has no address")
        found[region] = str(answer["address"])
    return found


def sign_in(project: Project) -> Iterator[Finding]:
    """Yield whether the stack has the ID that the tokens of people are signed for.

    JSON has it as a string (docs.cloud.google.com/compute/docs/reference/rest/v1/backendServices).
    """
    people = project.plan.front.people
    if people is None:
        return
    subject, name = "backend service of people", f"{project.plan.names.front()}-people"

    def look() -> Finding:
        field, given = "clients.people.backend_service", people.backend_service
        try:
            found = project.cloud.get(f"{_BACKENDS.format(project=project.id)}/{name}")
        except NotFound:
            says = f"`up` creates it; then set {field} to its ID, which this command prints"
            return Finding(subject, name, State.LATER, says)
        identifier = str(found.get("id", ""))
        if not identifier:
            return Finding(subject, name, State.UNSEEN, "the response has no ID")
        if given != identifier:
            got = "none" if given is None else repr(given)
            says = f"{field}: must be {identifier!r}, got {got}; people get 401"
            return Finding(subject, name, State.MISSING, says)
        return Finding(subject, name, State.MET, "the stack has its ID")

    yield judged(project, subject, name, look)
