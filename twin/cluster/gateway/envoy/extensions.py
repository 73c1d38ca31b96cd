"""Filters that call the programs of extensions, and the filter of the endpoint pickers.

Google calls route extensions, chooses the route, and then calls traffic extensions, the last ones
before a backend; on the way back traffic extensions come first and their order is reversed. The
picker is the last filter of a request, so that it sees what a traffic extension changed.
"""

from typing import Final

from twin.cluster.gateway.envoy.messages import (
    PICKER_FILTER,
    EnvoyJson,
    extension,
    grpc_service,
    processing_mode,
)
from twin.cluster.gateway.translation.cel import Attribute, Constant, Expression
from twin.cluster.gateway.translation.model import Chain, GatewayModel, Processor
from twin.world.rules import all_rules

_NO_LIMIT: Final = "3600s"  # a queue in the picker (flow control) may hold a request for long
_RBAC: Final = "envoy.filters.http.rbac"
_OPERATORS: Final = {
    "&&": "_&&_",
    "||": "_||_",
    "!": "!_",
    "==": "_==_",
    "!=": "_!=_",
    "<": "_<_",
    "<=": "_<=_",
    ">": "_>_",
    ">=": "_>=_",
    "+": "_+_",
}
_FIELDS: Final = {"path": "url_path"}  # Google's request.path is Envoy's without the query


def filters_of(model: GatewayModel) -> list[EnvoyJson]:
    """Return the filters of a gateway's extensions and pickers, in the order of requests."""
    return [
        *_stage("routing_extension", model.routing_chains),
        *_stage("traffic_extension", model.traffic_chains),
        _picker_filter(),
    ]


def _stage(stage: str, chains: tuple[Chain, ...]) -> list[EnvoyJson]:
    """Return the filters of one kind of extension.

    Which chain runs is found once, as an extension may change the headers that decide it.
    """
    found = _metadata_filters(stage, chains)
    chosen = any(chain.conditions for chain in chains)
    if chosen:
        found.append(_selector(stage, chains))
    number = 0
    for position, chain in enumerate(chains):
        for processor in chain.processors:
            item = _filter(f"gke.{stage}.{number}", stage, processor)
            found.append(_only_in_chain(stage, position, item) if chosen else item)
            number += 1
    return found


def _filter(name: str, stage: str, processor: Processor) -> EnvoyJson:
    is_traffic = stage == "traffic_extension"
    # not of the body-based router, which sends a prompt back in one message
    size = int(all_rules()["gateway.extension.message"].value) if is_traffic else None
    fields: EnvoyJson = {
        "grpc_service": grpc_service(processor, size),
        "processing_mode": processing_mode(processor),
        "failure_mode_allow": processor.fail_open,
        "message_timeout": _NO_LIMIT
        if processor.timeout_seconds is None
        else f"{processor.timeout_seconds:g}s",
    }
    if is_traffic:
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
    """Return the filter that notes the first chain whose condition holds; it refuses nothing."""
    policies: EnvoyJson = {}
    for position, chain in enumerate(chains):
        policy: EnvoyJson = {"permissions": [{"any": True}], "principals": [{"any": True}]}
        if chain.conditions:
            policy["condition"] = _any_of(chain.conditions)
            policy["cel_config"] = {"enable_string_functions": True, "enable_string_concat": True}
        policies[str(position)] = policy  # tried in the order of their names: five at most
    return extension(
        f"gke.{stage}.chain",
        "rbac",
        shadow_rules={"action": "ALLOW", "policies": policies},
        shadow_rules_stat_prefix=f"{stage}_",
    )


def _only_in_chain(stage: str, position: int, item: EnvoyJson) -> EnvoyJson:
    """Return a filter that is skipped where another chain, or none, was chosen."""
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


def _any_of(conditions: tuple[Expression, ...]) -> EnvoyJson:
    first, *others = (expression_of(condition) for condition in conditions)
    for other in others:
        first = _call("_||_", [first, other])
    return first


def expression_of(expression: Expression) -> EnvoyJson:
    """Return a condition as the syntax tree that Envoy reads (google.api.expr.v1alpha1)."""
    if isinstance(expression, Constant):
        return {"const_expr": _constant(expression.value)}
    if isinstance(expression, Attribute):
        request: EnvoyJson = {"ident_expr": {"name": "request"}}
        field = _FIELDS.get(expression.name, expression.name)
        found: EnvoyJson = {"select_expr": {"operand": request, "field": field}}
        if not expression.header:
            return found
        return _call("_[_]", [found, {"const_expr": {"string_value": expression.header}}])
    arguments = [expression_of(each) for each in expression.arguments]
    if expression.function in _OPERATORS:
        return _call(_OPERATORS[expression.function], arguments)
    if expression.function == "int":
        return _call("int", arguments)
    found = _call(expression.function, arguments[1:])
    found["call_expr"]["target"] = arguments[0]
    return found


def _constant(value: str | int | bool) -> EnvoyJson:
    if isinstance(value, bool):
        return {"bool_value": value}
    return {"int64_value": value} if isinstance(value, int) else {"string_value": value}


def _call(function: str, arguments: list[EnvoyJson]) -> EnvoyJson:
    return {"call_expr": {"function": function, "args": arguments}}


def _picker_filter() -> EnvoyJson:
    """Return the filter of the endpoint pickers: each route says which picker it asks.

    It is in the chain of every request, as routes may change in front of it; a route without a
    picker switches it off. The route stays as it is when the picker has answered.
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
