"""Envoy filters for authorization, extensions and endpoint pickers.

Google authorizes a request, calls route extensions, selects the route, applies the backend's Cloud
Armor policy, and then calls traffic extensions, which are the last before a backend. For responses,
traffic extensions come first, in reverse order. The picker is the last filter of a request, so that
it sees the changes of a traffic extension.
"""

from typing import Final

from twin.cluster.gateway.envoy.armor import armor_filter
from twin.cluster.gateway.envoy.authorization import authorization_filters
from twin.cluster.gateway.envoy.conditions import any_of
from twin.cluster.gateway.envoy.messages import (
    PICKER_FILTER,
    EnvoyJson,
    extension,
    grpc_service,
    processing_mode,
)
from twin.cluster.gateway.translation.model import Chain, GatewayModel, Processor
from twin.world.rules import all_rules

_NO_LIMIT: Final = "3600s"  # Envoy has none for a picker: its bodies are full-duplex
_ROUTING: Final = "routing_extension"
_TRAFFIC: Final = "traffic_extension"
_RBAC: Final = "envoy.filters.http.rbac"


def filters_of(model: GatewayModel) -> list[EnvoyJson]:
    """Return the filters of authorization, extensions and pickers, in request order."""
    return [
        *authorization_filters(model.authorization),
        *_stage(_ROUTING, model.routing_chains),
        *([armor_filter()] if any(backend.armor for backend in model.backends) else []),
        *_stage(_TRAFFIC, model.traffic_chains),
        _picker_filter(),
    ]


def _stage(stage: str, chains: tuple[Chain, ...]) -> list[EnvoyJson]:
    """Return the filters of one kind of extension.

    The chain is selected once, because an extension can change the headers that decide it.
    """
    found = _metadata_filters(stage, chains)
    chosen = any(chain.conditions for chain in chains)
    if chosen:
        found.append(_selector(stage, chains))
    for name, position, processor in _numbered(stage, chains):
        item = _filter(name, stage, processor)
        found.append(_only_in_chain(stage, position, item) if chosen else item)
    return found


def processor_filters(model: GatewayModel) -> list[tuple[str, Processor]]:
    """Return the name of each extension's filter, with its processor, in request order."""
    stages = ((_ROUTING, model.routing_chains), (_TRAFFIC, model.traffic_chains))
    return [(name, item) for stage, chains in stages for name, _, item in _numbered(stage, chains)]


def _numbered(stage: str, chains: tuple[Chain, ...]) -> list[tuple[str, int, Processor]]:
    """Return name of the filter, position of the chain, and processor."""
    found = [(at, item) for at, chain in enumerate(chains) for item in chain.processors]
    return [(f"gke.{stage}.{number}", at, item) for number, (at, item) in enumerate(found)]


def _filter(name: str, stage: str, processor: Processor) -> EnvoyJson:
    size = int(all_rules()["gateway.extension.message"].value)
    fields: EnvoyJson = {
        "grpc_service": grpc_service(processor, size),
        "processing_mode": processing_mode(processor),
        "failure_mode_allow": processor.fail_open,
        "message_timeout": _NO_LIMIT
        if processor.timeout_seconds is None
        else f"{processor.timeout_seconds:g}s",
    }
    if stage == _TRAFFIC:
        fields["route_cache_action"] = "RETAIN"  # it does not affect which backend is chosen
    if processor.forward_headers:
        patterns = [{"exact": name, "ignore_case": True} for name in processor.forward_headers]
        fields["forward_rules"] = {"allowed_headers": {"patterns": patterns}}
    if processor.metadata:
        fields["metadata_options"] = {"forwarding_namespaces": {"untyped": [processor.namespace]}}
    if processor.observes:
        fields["observability_mode"] = True
    return extension(name, "ext_proc", **fields)


def _metadata_filters(stage: str, chains: tuple[Chain, ...]) -> list[EnvoyJson]:
    entries = [
        {"metadata_namespace": processor.namespace, "value": dict(processor.metadata)}
        for chain in chains
        for processor in chain.processors
        if processor.metadata
    ]
    if not entries:
        return []
    return [extension(f"gke.{stage}.metadata", "set_metadata", metadata=entries)]


def _selector(stage: str, chains: tuple[Chain, ...]) -> EnvoyJson:
    """Return the filter that records the first chain whose condition holds; it rejects nothing."""
    policies: EnvoyJson = {}
    for position, chain in enumerate(chains):
        policy: EnvoyJson = {"permissions": [{"any": True}], "principals": [{"any": True}]}
        if chain.conditions:
            policy["condition"] = any_of(chain.conditions)
            policy["cel_config"] = {"enable_string_functions": True, "enable_string_concat": True}
        policies[str(position)] = policy  # tried in the order of their names: five at most
    return extension(
        f"gke.{stage}.chain",
        "rbac",
        shadow_rules={"action": "ALLOW", "policies": policies},
        shadow_rules_stat_prefix=f"{stage}_",
    )


def _only_in_chain(stage: str, position: int, item: EnvoyJson) -> EnvoyJson:
    """Return a filter that is skipped if another chain, or none, was selected."""
    path = [{"key": f"{stage}_shadow_effective_policy_id"}]
    chosen = {
        "single_predicate": {
            "input": extension(
                "envoy.matching.inputs.dynamic_metadata",
                "metadata_input",
                filter=_RBAC,
                path=path,
            ),
            "custom_match": extension(
                "envoy.matching.matchers.metadata_matcher",
                "metadata_match",
                value={"string_match": {"exact": str(position)}},
            ),
        }
    }
    skip = {"action": extension("skip", "skip_filter")}
    matchers = [{"predicate": {"not_matcher": chosen}, "on_match": skip}]
    return extension(
        item["name"],
        "with_matcher",
        extension_config=item,
        xds_matcher={"matcher_list": {"matchers": matchers}},
    )


def _picker_filter() -> EnvoyJson:
    """Return the filter of the endpoint pickers; each route configures its picker.

    It is in the chain of every request, because the route can change before it. A route without a
    picker disables it. The picker's answer does not change the route.
    """
    nobody = Processor("none", (), events=("Nothing",))
    return extension(
        PICKER_FILTER,
        "ext_proc",
        grpc_service=grpc_service(nobody),
        processing_mode=processing_mode(nobody),
        message_timeout=_NO_LIMIT,
        route_cache_action="RETAIN",
    )
