"""Existing resources of a stack: networks, subnets, buckets, repositories and keys."""

from collections.abc import Callable, Iterable, Iterator
from ipaddress import IPv4Network
from typing import Final

from gke_inference.catalogue.google_addresses import APIS
from gke_inference.catalogue.load_balancing import BACKEND_PORTS, HEALTH_CHECK_RANGES, HTTPS_PORT
from infra.stack import ExistingSubnet
from scripts.prerequisites.finding import Finding, Project, State, judged
from scripts.shared.google_cloud import Json, NotFound, last
from twin.cluster.gateway.translation.vpc import (
    ANYWHERE,
    Direction,
    FirewallRule,
    decision,
    firewall_rules,
)

_COMPUTE: Final = "compute.googleapis.com/compute/v1"
_STORAGE: Final = "storage.googleapis.com/storage/v1/b"
_REPOSITORIES: Final = "artifactregistry.googleapis.com/v1"
_KEYS: Final = "cloudkms.googleapis.com/v1"

Judge = Callable[[Json], str]
"""Returns why a resource does not fit; empty if it does."""


def existing(project: Project) -> Iterator[Finding]:
    """Yield whether each resource that the stack names exists and fits.

    Fields: docs.cloud.google.com/compute/docs/reference/rest/v1 (networks, subnetworks, firewalls),
    docs.cloud.google.com/storage/docs/json_api/v1/buckets, docs.cloud.google.com/kms/docs/reference
    and docs.cloud.google.com/artifact-registry/docs/reference/rest (2026-11-22).
    """
    network = project.plan.network.existing
    archives = project.plan.platform.storage.archives
    if network is not None:
        yield thing(project, "network", network, f"{_COMPUTE}/{network}", lambda _: "")
        for name, region in project.plan.platform.regions.items():
            if region.existing.subnet is not None:
                yield from _subnet(project, name, region.existing.subnet, network)
        yield _firewall(project, network)
        yield _egress(project, network)
    for name, region in project.plan.platform.regions.items():
        bucket, repository = region.existing.bucket, region.existing.repository
        if bucket is not None:
            judge = _in_region(name)
            yield thing(project, "bucket", bucket, f"{_STORAGE}/{bucket}", judge)
        if repository is not None:
            url = f"{_REPOSITORIES}/{repository}"
            yield thing(project, "repository", repository, url, _is_docker)
        for key in dict.fromkeys(filter(None, (region.kms_key, region.data_key))):
            yield thing(project, "key", key, f"{_KEYS}/{key}", _encrypts)
    for key in dict.fromkeys(each.kms_key for each in archives.values() if each.kms_key):
        yield thing(project, "key", key, f"{_KEYS}/{key}", _encrypts)


def thing(project: Project, subject: str, name: str, url: str, judge: Judge) -> Finding:
    """Return whether something exists and fits.

    Args:
        project: The project.
        subject: Kind of resource.
        name: Name or path in the stack.
        url: Address of the resource.
        judge: Function that returns what does not fit.
    """

    def look() -> Finding:
        try:
            found = project.cloud.get(url)
        except NotFound:
            return Finding(subject, name, State.MISSING, "there is none")
        problem = judge(found)
        if problem:
            return Finding(subject, name, State.MISSING, problem)
        return Finding(subject, name, State.MET, "exists; the stack does not change it")

    return judged(project, subject, name, look)


def _subnet(
    project: Project, region: str, subnet: ExistingSubnet, network: str
) -> Iterator[Finding]:
    def judge(found: Json) -> str:
        if not str(found.get("network", "")).endswith(network):
            return f"is in {last(found.get('network'))}; must be in {last(network)}"
        ranges = [str(each["rangeName"]) for each in found.get("secondaryIpRanges", [])]
        missing = [each for each in (subnet.pods, subnet.services) if each and each not in ranges]
        if missing:
            has = ", ".join(ranges) or "none"
            return f"has the secondary ranges {has}; must have {', '.join(missing)}"
        if found.get("privateIpGoogleAccess") is not True:
            return "has no Private Google Access; nodes without external addresses need it"
        return ""

    yield thing(project, "subnet", subnet.name, f"{_COMPUTE}/{subnet.name}", judge)
    yield _proxies(project, region, subnet, network)


def _proxies(project: Project, region: str, subnet: ExistingSubnet, network: str) -> Finding:
    """Return whether the region's proxy-only subnet has the range in the stack."""
    subject, name = "proxy-only subnet", f"{subnet.proxies} in {region}"
    owner = network.split("/")[1]

    def look() -> Finding:
        url = f"{_COMPUTE}/projects/{owner}/regions/{region}/subnetworks"
        found = [
            str(each.get("ipCidrRange"))
            for each in project.cloud.pages(url, "items")
            if each.get("purpose") == "REGIONAL_MANAGED_PROXY"
            and each.get("role") == "ACTIVE"
            and str(each.get("network", "")).endswith(network)
        ]
        if subnet.proxies in found:
            return Finding(subject, name, State.MET, "is active")
        command = (
            f"gcloud compute networks subnets create proxies --project={owner} --region={region}"
            f" --network={last(network)} --range={subnet.proxies}"
            " --purpose=REGIONAL_MANAGED_PROXY --role=ACTIVE"
        )
        says = f"the network has {', '.join(found) or 'none'} there"
        return Finding(subject, name, State.MISSING, says, "" if found else command)

    return judged(project, subject, name, look)


def _firewall(project: Project, network: str) -> Finding:
    """Return whether firewall rules of the network let health checks and proxies reach pods."""
    subject, name = "firewall rule", f"health checks and proxies in {last(network)}"
    proxies = [
        region.existing.subnet.proxies
        for region in project.plan.platform.regions.values()
        if region.existing.subnet is not None
    ]

    def look() -> Finding:
        wanted = [IPv4Network(each) for each in (*HEALTH_CHECK_RANGES, *proxies)]
        rules = _rules(project, network, Direction.INGRESS)
        pods = [each for _, each in _ranges(project)]
        shut = [
            each
            for each in wanted
            if not all(decision(rules, each, port, own) for own in pods for port in _ports())
        ]
        if not shut:
            return Finding(subject, name, State.MET, "a firewall rule of the network allows them")
        says = (
            f"the rules of the network keep {', '.join(map(str, shut))} out by TCP on"
            f" {', '.join(BACKEND_PORTS)}; whether a firewall policy does is not looked at"
        )
        sources = ",".join(map(str, wanted))
        ports = ",".join(f"tcp:{each}" for each in BACKEND_PORTS)
        command = (
            f"gcloud compute firewall-rules create load-balancing --project={_owner(network)}"
            f" --network={last(network)} --allow={ports} --priority=900"
            f" --source-ranges={sources}"
        )
        return Finding(subject, name, State.UNSEEN, says, command)

    return judged(project, subject, name, look)


def _egress(project: Project, network: str) -> Finding:
    """Return whether the firewall rules of the network let nodes out to Google's APIs."""
    subject, name = "firewall rule", f"Google's APIs from {last(network)}"

    def look() -> Finding:
        rules = _rules(project, network, Direction.EGRESS)
        nodes = [each for each, _ in _ranges(project)]
        open_ways = [
            way for way, address in APIS.items() if _lets_out(rules, IPv4Network(address), nodes)
        ]
        if open_ways:
            says = f"no rule of the network closes {open_ways[0]}"
            return Finding(subject, name, State.MET, says)
        return Finding(
            subject,
            name,
            State.UNSEEN,
            f"rules of the network deny TCP on {HTTPS_PORT} to {', '.join(APIS)}; rules for tags or"
            " accounts of the nodes, and endpoints of Private Service Connect, are not looked at",
            f"gcloud compute firewall-rules create google-apis --project={_owner(network)}"
            f" --network={last(network)} --direction=EGRESS --allow=tcp:{HTTPS_PORT} --priority=900"
            " --destination-ranges=199.36.153.8/30",
        )

    return judged(project, subject, name, look)


def _owner(network: str) -> str:
    """Return the project of a network."""
    return network.split("/")[1]


def _rules(project: Project, network: str, direction: Direction) -> list[FirewallRule]:
    """Return the network's rules for all machines in their ranges."""
    url = f"{_COMPUTE}/projects/{_owner(network)}/global/firewalls"
    return [
        rule
        for each in project.cloud.pages(url, "items")
        if str(each.get("network", "")).endswith(network)
        for rule in firewall_rules(each, direction)
    ]


def _ranges(project: Project) -> list[tuple[IPv4Network, IPv4Network]]:
    """Return the ranges of nodes and of pods of each subnet; one that is not known is all."""
    found: list[tuple[IPv4Network, IPv4Network]] = []
    for region in project.plan.platform.regions.values():
        subnet = region.existing.subnet
        if subnet is None:
            continue
        try:
            given = project.cloud.get(f"{_COMPUTE}/{subnet.name}")
        except NotFound:
            given = {}
        listed: list[Json] = given.get("secondaryIpRanges", [])
        second = {str(each.get("rangeName")): str(each.get("ipCidrRange")) for each in listed}
        both: tuple[str | None, ...] = (given.get("ipCidrRange"), second.get(subnet.pods or ""))
        nodes, pods = (IPv4Network(each) if each else ANYWHERE for each in both)
        found.append((nodes, pods))
    return found or [(ANYWHERE, ANYWHERE)]


def _lets_out(
    rules: list[FirewallRule], address: IPv4Network, nodes: Iterable[IPv4Network]
) -> bool:
    """Return whether nodes reach an address; without a rule that decides, all traffic leaves."""
    return all(decision(rules, address, HTTPS_PORT, each) is not False for each in nodes)


def _ports() -> Iterator[int]:
    """Yield each port that load balancers reach."""
    for each in BACKEND_PORTS:
        first, _, final = each.partition("-")
        yield from range(int(first), int(final or first) + 1)


def _in_region(region: str) -> Judge:
    def judge(found: Json) -> str:
        location = str(found.get("location", "")).lower()
        if found.get("locationType", "region") == "region" and location != region:
            return f"is in {location}; must be in {region}"
        uniform = found.get("iamConfiguration", {}).get("uniformBucketLevelAccess", {})
        if uniform.get("enabled") is not True:
            # docs.cloud.google.com/storage/docs/uniform-bucket-level-access (2026-11-22)
            return "has no uniform bucket-level access; Workload Identity requires it"
        return ""

    return judge


def _is_docker(found: Json) -> str:
    form = found.get("format")
    return "" if form == "DOCKER" else f"has the format {form}; must be DOCKER"


def _encrypts(found: Json) -> str:
    purpose = found.get("purpose")
    if purpose != "ENCRYPT_DECRYPT":
        return f"is for {purpose}; must be for ENCRYPT_DECRYPT"
    state = found.get("primary", {}).get("state")
    return "" if state == "ENABLED" else f"has a primary version in state {state}; must be ENABLED"
