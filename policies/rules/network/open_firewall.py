"""Firewall rules do not allow traffic from everywhere."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken
from policies.framework.reading import at, entries, is_type
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule

_EVERYBODY = frozenset(["0.0.0.0/0", "::/0"])


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    if at(resource.props, "direction") == "EGRESS" or not entries(resource.props, "allows"):
        return
    sources = [str(each) for each in entries(resource.props, "sourceRanges")]
    named = entries(resource.props, "sourceTags") + entries(resource.props, "sourceServiceAccounts")
    if _EVERYBODY.intersection(sources) or not (sources or named):
        yield broken(
            resource,
            "sourceRanges",
            sources or "none, which means all addresses",
            "must be specific networks",
        )


RULE = ResourceRule(
    name="open-firewall",
    description="Firewall rules allow specific source ranges, never all addresses.",
    applies=is_type("gcp:compute/firewall:Firewall"),
    check=_check,
    cis=("5.6.6",),
    reference="CIS Google Cloud Foundation Benchmark 3.6, 3.7",
)
