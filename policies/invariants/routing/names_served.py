"""Model names in route matches are names that the backend serves."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken
from policies.framework.reading import at, entries
from policies.framework.rule import Invariant
from policies.objects.backends import backends
from policies.objects.picker import servers_of
from policies.objects.world import World

_HEADER = "x-gateway-model-name"
_LIVE = "VLLM_ALLOW_RUNTIME_LORA_UPDATING"


def _check(world: World) -> Iterator[Finding]:
    for each in backends(world):
        target = world.find(each.kind, each.namespace, each.name)
        servers = servers_of(world, target) if target is not None else []
        if not servers or any(server.container.environment.get(_LIVE) for server in servers):
            continue  # adapters may be added while it serves
        for name in _names(each.rule):
            silent = [one for one in servers if name not in one.served_names]
            rewritten = any(True for _ in world.of("InferenceModelRewrite"))
            if len(silent) == len(servers) and servers[0].served_names and not rewritten:
                yield broken(
                    each.route,
                    f"{each.field} for {_HEADER}",
                    name,
                    f"{each.kind} {each.name} serves {', '.join(servers[0].served_names)}: "
                    "requests get 404",
                    "use a name from --served-model-name or --lora-modules",
                )


def _names(rule: object) -> list[str]:
    return [
        str(at(header, "value"))
        for match in entries(rule, "matches")
        for header in entries(match, "headers")
        if str(at(header, "name")).lower() == _HEADER and at(header, "type") in (None, "Exact")
    ]


RULE = Invariant(
    name="names-are-served",
    description="Routes that match a model name lead to servers that serve it.",
    reference="body-based routing: the model name of the request is the header",
    check=_check,
)
