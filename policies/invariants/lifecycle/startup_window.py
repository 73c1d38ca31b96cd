"""Probes do not restart a server while it loads and compiles."""

from collections.abc import Iterator

from planner.choice.coldstart import probed_seconds
from policies.framework.finding import Finding, broken, unknown
from policies.framework.reading import at
from policies.framework.resources import Properties
from policies.framework.rule import Invariant
from policies.objects.accelerators import TPU, resource_of
from policies.objects.engines import Engine, engines, leads
from policies.objects.models import loaded_of
from policies.objects.world import World

_AMPLE_SECONDS = 1800
"""Enough for all known cases: a TPU server compiles for up to half an hour."""


def _check(world: World) -> Iterator[Finding]:
    for server in engines(world):
        if resource_of(server.container) is not None and leads(server.container.pod):
            yield from _findings(server)


def _findings(server: Engine) -> Iterator[Finding]:
    container, obj = server.container, server.container.pod.obj
    window, field = _window(container.body)
    if window is None or window >= _AMPLE_SECONDS:
        return
    model = loaded_of(server)
    if model is None:
        yield unknown(
            obj,
            f"{container.path}.{field}",
            f"{window:g} s",
            "the loading time is unknown: the model's name does not contain its size",
            f"allow {_AMPLE_SECONDS} s",
        )
        return
    kind = "tpu" if resource_of(container) == TPU else "gpu"
    size = model.parameters_billion * model.bits / 8
    needed = probed_seconds(kind, size)
    if window < needed:
        yield broken(
            obj,
            f"{container.path}.{field}",
            f"{window:g} s",
            f"a first start takes about {needed:.0f} s ({size:.0f} GB of weights, and compiling): "
            "it is killed and restarted forever",
            f"allow {max(_AMPLE_SECONDS, 2 * needed):.0f} s in startupProbe",
        )


def _window(container: Properties) -> tuple[float | None, str]:
    """Return the seconds until an unresponsive container is restarted, or None for never."""
    for name in ("startupProbe", "livenessProbe"):
        probe = at(container, name)
        if probe is not None:
            first = float(at(probe, "initialDelaySeconds") or 0)
            period = float(at(probe, "periodSeconds") or 10)
            return first + period * float(at(probe, "failureThreshold") or 3), name
    return None, ""


RULE = Invariant(
    name="startup-window",
    description="Probes give a server time to load weights and compile before a restart.",
    reference="the planner's cold start: planner/data/coldstart.yaml, which has the sources",
    check=_check,
)
