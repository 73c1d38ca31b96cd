"""Nothing in the network is open to everybody."""

from collections.abc import Iterator

from policies.reading import at, entries, is_type
from policies.rule import Config, Resource, Rule

_EVERYBODY = frozenset(["0.0.0.0/0", "::/0"])


def _check(resource: Resource, config: Config) -> Iterator[str]:
    del config
    if at(resource.props, "direction") == "EGRESS" or not entries(resource.props, "allows"):
        return
    sources = [str(each) for each in entries(resource.props, "sourceRanges")]
    named = entries(resource.props, "sourceTags") + entries(resource.props, "sourceServiceAccounts")
    if _EVERYBODY.intersection(sources) or not (sources or named):
        yield f"sourceRanges: must be named networks, got {sources or 'none, which is everybody'}"


RULE = Rule(
    name="open-firewall",
    description="Firewall rules let in named networks, never everybody.",
    applies=is_type("gcp:compute/firewall:Firewall"),
    check=_check,
    reference="CIS Google Cloud Foundation Benchmark 3.6, 3.7; CIS GKE Benchmark 5.6.6",
)
