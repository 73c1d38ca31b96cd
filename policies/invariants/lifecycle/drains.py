"""Servers finish their requests before they stop."""

import re
from collections.abc import Iterator

from policies.framework.finding import Finding, broken
from policies.framework.reading import at, entries
from policies.framework.rule import Invariant
from policies.objects.compute_classes import rungs_of
from policies.objects.engines import Engine, engines, leads
from policies.objects.world import World
from workloads.engine.node import SPOT_POD_SECONDS

_DEFAULT_GRACE = 30
_ONLINE = ("Deployment", "LeaderWorkerSet", "RayCluster", "StatefulSet")
_SLEEP = re.compile(r"\bsleep[ (]+(\d+(?:\.\d+)?)")


def _check(world: World) -> Iterator[Finding]:
    for server in engines(world):
        pod = server.container.pod
        if pod.obj.kind in _ONLINE and leads(pod):
            yield from _findings(server)


def _findings(server: Engine) -> Iterator[Finding]:
    container, pod = server.container, server.container.pod
    hook = at(container.body, "lifecycle", "preStop")
    field = f"{container.path}.lifecycle.preStop"
    if hook is None and not container.line.has("--shutdown-timeout"):
        yield broken(
            pod.obj,
            field,
            None,
            "the load balancer still sends requests to a stopping server, and streams are cut off",
            "add a preStop hook that waits, or --shutdown-timeout",
        )
        return
    waits = _waits(hook)
    grace = at(pod.spec, "terminationGracePeriodSeconds")
    grace = _DEFAULT_GRACE if grace is None else int(grace)
    if waits >= grace:
        yield broken(
            pod.obj,
            pod.at("spec.terminationGracePeriodSeconds"),
            grace,
            f"the preStop hook alone waits {waits:g} s: the server is killed during the hook",
            f"write more than {waits:g} plus the longest request",
        )
    if waits >= SPOT_POD_SECONDS and any(rung.is_spot for rung in rungs_of(pod)):
        yield broken(
            pod.obj,
            field,
            f"{waits:g} s",
            f"on a spot rung a pod has {SPOT_POD_SECONDS:g} s: no time is left to finish requests",
            f"wait well below {SPOT_POD_SECONDS:g} s before the server is stopped",
        )


def _waits(hook: object) -> float:
    """Return the minimum wait of a hook in seconds: its sleep, without loops that wait for idle."""
    fixed = at(hook, "sleep", "seconds")
    if fixed is not None:
        return float(fixed)
    text = " ".join(str(word) for word in entries(hook, "exec", "command"))
    match = _SLEEP.search(text)
    return float(match[1]) if match else 0.0


RULE = Invariant(
    name="servers-drain",
    description="Servers drain before they stop, within their grace period and the Spot notice.",
    reference="dynamo #13559, AIBrix #553, kthena #1589: requests are killed at scale-down",
    check=_check,
)
