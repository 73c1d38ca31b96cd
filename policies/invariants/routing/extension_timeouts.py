"""Programs of extensions may follow the longest answer."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken
from policies.framework.reading import at, entries
from policies.framework.rule import Invariant
from policies.objects.backends import targeting
from policies.objects.index import Obj
from policies.objects.world import World

_EXTENSIONS = ("GCPRoutingExtension", "GCPTrafficExtension")
_DEFAULT_SECONDS = 30


def _check(world: World) -> Iterator[Finding]:
    longest = max(
        (seconds for each in world.of("GCPBackendPolicy") if (seconds := _of_a_model(each))),
        default=_DEFAULT_SECONDS,
    )
    for service in _called(world):
        policies = targeting(world, "GCPBackendPolicy", service)
        seconds = max((_seconds(each) for each in policies), default=_DEFAULT_SECONDS)
        if seconds < longest:
            yield broken(
                service,
                "GCPBackendPolicy",
                seconds,
                f"an extension calls it, and its timeout is shorter than {longest} s, the longest "
                "of a model: longer answers may be cut off",
                f"add a GCPBackendPolicy with timeoutSec {longest} or more and targetRef Service "
                f"{service.name}",
            )


def _called(world: World) -> list[Obj]:
    """Return the Services that extensions call, each once."""
    found: dict[str, Obj] = {}
    for extension in world.of(*_EXTENSIONS):
        for chain in entries(extension.body, "spec", "extensionChains"):
            for each in entries(chain, "extensions"):
                if at(each, "backendRef", "kind") in (None, "Service"):
                    name = str(at(each, "backendRef", "name"))
                    service = world.find("Service", extension.namespace, name)
                    if service is not None:
                        found[service.title] = service
    return list(found.values())


def _of_a_model(policy: Obj) -> int:
    """Return the timeout of a pool's policy, or 0."""
    kind = str(policy.at("spec", "targetRef", "kind"))
    return _seconds(policy) if kind in ("InferencePool", "GCPInferencePoolImport") else 0


def _seconds(policy: Obj) -> int:
    value = policy.at("spec", "default", "timeoutSec")
    return int(value) if isinstance(value, int | float) else _DEFAULT_SECONDS


RULE = Invariant(
    name="extension-timeouts",
    description="The timeout of a program that an extension calls is that of a model or longer.",
    reference="Service Extensions: a callout is a backend service, with a timeout of 30 seconds",
    check=_check,
)
