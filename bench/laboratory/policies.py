"""The compared routing policies: Envoy's own, and configurations of the endpoint picker."""

import hashlib
from dataclasses import dataclass

from simulator.replays.picker_configs import UPSTREAM_DEFAULTS, Facts, shipped

_LB = "type.googleapis.com/envoy.extensions.load_balancing_policies"


@dataclass(frozen=True)
class Policy:
    """A routing policy."""

    name: str
    picker: str | None = None
    """Configuration of the endpoint picker; None if Envoy selects."""
    balancer: str = ""
    """Envoy's load balancing policy without a picker."""
    route: str = ""
    """The same for computed engines: one of `compiled.ROUTES`."""

    @property
    def digest(self) -> str:
        """Twelve hexadecimal digits of a hash of the policy."""
        return hashlib.sha256((self.picker or self.balancer or self.route).encode()).hexdigest()[
            :12
        ]

    def envoy_policy(self) -> dict[str, object]:
        """Return Envoy's policy, for a cluster without a picker."""
        message = "".join(word.title() for word in self.balancer.split("_"))
        kind = f"{_LB}.{self.balancer}.v3.{message}"
        name = f"envoy.load_balancing_policies.{self.balancer}"
        return {"typed_extension_config": {"name": name, "typed_config": {"@type": kind}}}


BASELINE = "round_robin"
DEFAULTS = "picker_defaults"
SHIPPED = "shipped"
AFFINITY = "session_affinity"


def policies(facts: Facts) -> tuple[Policy, ...]:
    """Return the policies to compare; the shipped one comes from the component itself.

    Where there are sessions, the last one keeps each on the replica that had the fewest requests
    when it began. It knows sessions apart, which no picker here does, and exists only computed.
    """
    best = (Policy(AFFINITY, route="session-affine"),) if facts.has_sessions else ()
    return (
        Policy(BASELINE, balancer="round_robin", route="round-robin"),
        Policy("random", balancer="random", route="random"),
        Policy("least_request", balancer="least_request", route="two-choices"),
        Policy(DEFAULTS, picker=UPSTREAM_DEFAULTS),
        Policy(SHIPPED, picker=shipped(facts)),
        *best,
    )
