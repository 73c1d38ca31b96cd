"""Organization policies that would reject resources of the stack."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from infra.plan import Plan
from infra.stack import Front
from scripts.prerequisites.finding import Finding, Project, State, judged

_POLICIES: Final = "orgpolicy.googleapis.com/v2/projects"

_SUBJECT: Final = "organization policy"


@dataclass(frozen=True)
class Effective:
    """The effective policy of a project, including inherited rules.

    Fields: docs.cloud.google.com/resource-manager/docs/reference/orgpolicy/rest/v2 (2026-11-22).
    """

    is_enforced: bool
    """Value of a boolean constraint."""
    denies_all: bool
    allowed: tuple[str, ...]
    """Allowed values; empty if everything is allowed that is not denied."""
    denied: tuple[str, ...]
    has_conditions: bool
    """Whether a rule applies only to some tags, which are not checked."""

    @classmethod
    def of(cls, answer: dict[str, Any]) -> "Effective":
        """Return the policy in a response."""
        rules: list[dict[str, Any]] = answer.get("spec", {}).get("rules", [])
        values = [rule.get("values", {}) for rule in rules]
        return cls(
            is_enforced=any(rule.get("enforce") for rule in rules),
            denies_all=any(rule.get("denyAll") for rule in rules),
            allowed=tuple(word for each in values for word in each.get("allowedValues", [])),
            denied=tuple(word for each in values for word in each.get("deniedValues", [])),
            has_conditions=any("condition" in rule for rule in rules),
        )


Verdict = tuple[State, str]
Judge = Callable[[Plan, Effective], Verdict]

_FINE: Final[Verdict] = (State.MET, "")


def _refused_if_enforced(says: str) -> Judge:
    def judge(plan: Plan, policy: Effective) -> Verdict:
        del plan
        return (State.MISSING, says) if policy.is_enforced else _FINE

    return judge


def _locations(plan: Plan, policy: Effective) -> Verdict:
    """Judge gcp.resourceLocations: groups such as `in:us-locations` match by prefix.

    Google defines which regions of Europe are in `in:eu-locations`; this is not guessed.
    """
    regions = list(plan.regions)
    if policy.denies_all:
        return State.MISSING, f"denies every location; must allow {', '.join(regions)}"
    denied = [each for each in regions if any(_is_in(each, word) for word in policy.denied)]
    if denied:
        return State.MISSING, f"denies {', '.join(denied)}"
    if not policy.allowed:
        return _FINE
    others = [each for each in regions if not any(_is_in(each, word) for word in policy.allowed)]
    groups = [word for word in policy.allowed if word.startswith("in:")]
    if others and not all(re.fullmatch(r"in:[a-z]+-[a-z]+\d+-locations", each) for each in groups):
        says = f"allows {', '.join(policy.allowed)}; check whether they include {', '.join(others)}"
        return State.UNSEEN, says
    return (State.MISSING, f"does not allow {', '.join(others)}") if others else _FINE


def _is_in(region: str, word: str) -> bool:
    name = word.removeprefix("in:").removesuffix("-locations")
    return region == name or (word.startswith("in:") and region.startswith(f"{name}-"))


def _services(plan: Plan, policy: Effective) -> Verdict:
    wanted = plan.project.services
    refused = [each for each in wanted if not _is_allowed(policy, each)]
    return (State.MISSING, f"denies {', '.join(refused)}") if refused else _FINE


def _load_balancers(plan: Plan, policy: Effective) -> Verdict:
    gateway = plan.platform.gateway
    wanted = [("INTERNAL", "INTERNAL_HTTP_HTTPS")]
    if not gateway.has_internal_gateways:
        wanted = [("EXTERNAL", "EXTERNAL_MANAGED_HTTP_HTTPS")]
    if gateway.front is Front.GLOBAL:
        wanted.append(("EXTERNAL", "GLOBAL_EXTERNAL_MANAGED_HTTP_HTTPS"))
    for kind, balancer in wanted:
        if not _is_allowed(policy, balancer) and f"in:{kind}" not in (policy.allowed or ()):
            return State.MISSING, f"does not allow {balancer}"
        if f"in:{kind}" in policy.denied:
            return State.MISSING, f"denies in:{kind}"
    return _FINE


def _image_projects(plan: Plan, policy: Effective) -> Verdict:
    cache = plan.storage.settings.image_cache
    if cache is None or cache.project is None:
        return _FINE
    wanted = f"projects/{cache.project}"
    return _FINE if _is_allowed(policy, wanted) else (State.MISSING, f"does not allow {wanted}")


def _shielded(plan: Plan, policy: Effective) -> Verdict:
    classes = [name for name, each in plan.platform.capacity.items() if each.node_pools is None]
    if not policy.is_enforced or not classes:
        return _FINE
    return State.UNSEEN, (
        f"node pools that GKE makes for {', '.join(classes)} have secure boot if GKE applies the"
        " cluster's auto-provisioning defaults to them, which was not tried"
    )


def _members(plan: Plan, policy: Effective) -> Verdict:
    del plan
    if not policy.allowed:
        return _FINE
    return State.UNSEEN, (
        "restricts members; whether the workload identities of this project are among them is not"
        f" in the answer ({', '.join(policy.allowed)})"
    )


def _peerings(plan: Plan, policy: Effective) -> Verdict:
    """Judge compute.restrictVpcPeering, for the peering that Managed Lustre needs."""
    if plan.storage.services_range is None:
        return _FINE
    if policy.denies_all:
        return State.MISSING, "denies peerings; storage.lustre needs one with Google's services"
    if not policy.allowed and not policy.denied:
        return _FINE
    return State.UNSEEN, (
        "restricts peerings; whether Google's network for storage.lustre is allowed is not in the"
        f" answer ({', '.join((*policy.allowed, *policy.denied))})"
    )


def _is_allowed(policy: Effective, value: str) -> bool:
    if policy.denies_all or value in policy.denied or f"is:{value}" in policy.denied:
        return False
    return not policy.allowed or value in policy.allowed or f"is:{value}" in policy.allowed


CONSTRAINTS: Final[dict[str, Judge]] = {
    "compute.requireShieldedVm": _shielded,
    "compute.restrictLoadBalancerCreationForTypes": _load_balancers,
    "compute.restrictVpcPeering": _peerings,
    "compute.trustedImageProjects": _image_projects,
    "gcp.resourceLocations": _locations,
    "gcp.restrictServiceUsage": _services,
    "iam.allowedPolicyMemberDomains": _members,
    "iam.disableServiceAccountCreation": _refused_if_enforced(
        "the nodes of each cluster use a dedicated service account"
    ),
    "iam.disableWorkloadIdentityClusterCreation": _refused_if_enforced(
        "models read their weights through Workload Identity"
    ),
}
"""Constraints that can reject resources of this platform, and the functions that judge them.

Source: docs.cloud.google.com/resource-manager/docs/organization-policy/org-policy-constraints
(2026-11-22).

Constraints that the platform always satisfies are excluded: nodes have no external addresses
(`compute.vmExternalIpAccess`), buckets have uniform access and no public one, and no keys of
service accounts are made. Custom constraints are an organization's own, and cannot be judged."""


def org_policies(project: Project) -> Iterator[Finding]:
    """Yield whether an organization policy rejects the stack, with a row for each that does."""
    fine: list[str] = []
    for constraint, judge in CONSTRAINTS.items():
        found = judged(project, _SUBJECT, constraint, _look(project, constraint, judge))
        if found.state is State.MET:
            fine.append(constraint)
        else:
            yield found
    if fine:
        yield Finding(
            _SUBJECT, f"{len(fine)} constraints", State.MET, "no policy rejects the stack"
        )


def _look(project: Project, constraint: str, judge: Judge) -> Callable[[], Finding]:
    def look() -> Finding:
        answer = project.cloud.get(
            f"{_POLICIES}/{project.id}/policies/{constraint}:getEffectivePolicy"
        )
        policy = Effective.of(answer)
        state, says = judge(project.plan, policy)
        if state is State.MISSING and policy.has_conditions:
            says = f"{says}, for some tags; whether the project has them is not checked"
            return Finding(_SUBJECT, constraint, State.UNSEEN, says)
        command = "" if state is not State.MISSING else _override(project.id, constraint)
        return Finding(_SUBJECT, constraint, state, says, command)

    return look


def _override(project: str, constraint: str) -> str:
    """Return the command that shows the policy as a file, to change it for the project."""
    return (
        f"gcloud org-policies describe {constraint} --project={project} --effective"
        " > policy.yaml && gcloud org-policies set-policy policy.yaml"
    )
