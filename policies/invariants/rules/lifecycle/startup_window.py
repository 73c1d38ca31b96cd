"""A server is not restarted while it still loads and compiles."""

from collections.abc import Iterator

from policies.invariants.engines import TPU, Engine, engines, leads, resource_of
from policies.invariants.finding import Finding, Invariant, broken, unknown
from policies.invariants.models import size_gib
from policies.invariants.world import World
from policies.reading import at
from policies.rule import Properties

# Published starts: weights from a bucket at 1.22 GiB/s, then 83 s until the first answer
# (accelerated-platforms vllm-fast-start); a TPU compiles 10 to 30 minutes at first (vllm #7533).
_GIB_PER_SECOND = 1.22
_ENGINE_SECONDS = 83
_COMPILE_SECONDS = 600
_AMPLE_SECONDS = 1800


def _check(world: World) -> Iterator[Finding]:
    for server in engines(world):
        if resource_of(server.container) is not None and leads(server.container.pod):
            yield from _judge(server)


def _judge(server: Engine) -> Iterator[Finding]:
    container, obj = server.container, server.container.pod.obj
    window, field = _window(container.body)
    if window is None or window >= _AMPLE_SECONDS:
        return
    size = size_gib(server)
    if size is None:
        yield unknown(
            obj,
            f"{container.path}.{field}",
            f"{window:g} s",
            "how long the model loads is not known: its size is not in its name",
            f"allow {_AMPLE_SECONDS} s",
        )
        return
    needed = size / _GIB_PER_SECOND + _ENGINE_SECONDS
    needed += _COMPILE_SECONDS if resource_of(container) == TPU else 0
    if window < needed:
        yield broken(
            obj,
            f"{container.path}.{field}",
            f"{window:g} s",
            f"a start takes about {needed:.0f} s ({size:.0f} GiB of weights"
            f"{', and compiling' if resource_of(container) == TPU else ''}): it is killed and "
            "starts again, for ever",
            f"allow {max(_AMPLE_SECONDS, 2 * needed):.0f} s in startupProbe",
        )


def _window(container: Properties) -> tuple[float | None, str]:
    """Return the seconds until a container that does not answer is restarted; None for never."""
    for name in ("startupProbe", "livenessProbe"):
        probe = at(container, name)
        if probe is not None:
            first = float(at(probe, "initialDelaySeconds") or 0)
            period = float(at(probe, "periodSeconds") or 10)
            return first + period * float(at(probe, "failureThreshold") or 3), name
    return None, ""


INVARIANT = Invariant(
    name="startup-window",
    holds="Probes let a server load its weights and compile before they restart it.",
    source="accelerated-platforms vllm-fast-start; vllm #7533; design: cold-start budget",
    check=_check,
)
