"""Routes as Envoy route tables."""

from twin.cluster.gateway.envoy.armor import FILTER, armor_route
from twin.cluster.gateway.envoy.messages import (
    PICKER_FILTER,
    EnvoyJson,
    grpc_service,
    processing_mode,
    typed,
)
from twin.cluster.gateway.translation.model import (
    Backend,
    GatewayModel,
    HeaderChange,
    Listener,
    Match,
    Mirror,
    Redirect,
    Route,
    Target,
    ValueMatch,
)
from twin.world.nearness import CLIENT_REGION
from twin.world.rules import all_rules

_REDIRECTS = {
    301: "MOVED_PERMANENTLY",
    302: "FOUND",
}
_RETRIED_METHODS = "^(GET|HEAD|OPTIONS)$"


def table_name(listeners: tuple[Listener, ...]) -> str:
    """Return the name of the route table of listeners that share a port."""
    return f"port-{listeners[0].port}"


def tables_of(model: GatewayModel) -> dict[str, EnvoyJson]:
    """Return the route tables of a gateway by name."""
    return {table_name(group): _table(model, group) for group in listener_groups(model)}


def listener_groups(model: GatewayModel) -> list[tuple[Listener, ...]]:
    """Return the listeners of each port, which share a route table (rule gateway.sni)."""
    groups: dict[int, list[Listener]] = {}
    for listener in model.listeners:
        groups.setdefault(listener.port, []).append(listener)
    return [tuple(group) for group in groups.values()]


def _table(model: GatewayModel, group: tuple[Listener, ...]) -> EnvoyJson:
    backends = {backend.name: backend for backend in model.backends}
    hosts: dict[str, list[Route]] = {}
    for listener in group:
        for host, routes in listener.hosts:
            hosts.setdefault(host, []).extend(routes)
    return {
        "name": table_name(group),
        "ignore_port_in_host_matching": True,
        "virtual_hosts": [
            {
                "name": host,
                "domains": [host],
                "routes": [
                    *_afar(model),
                    *(
                        item
                        for route in hosts[host]
                        for item in _routes_of(route, backends, group[0])
                    ),
                ],
            }
            for host in sorted(hosts)
        ],
    }


def _afar(model: GatewayModel) -> list[EnvoyJson]:
    """Return the answer for clients that do not reach the gateway (rule gateway.global-access)."""
    if not model.only_region:
        return []
    status = int(all_rules()["gateway.global-access"].value)
    exact = {"exact": model.only_region}
    headers: list[EnvoyJson] = [
        {"name": CLIENT_REGION, "present_match": True},
        {"name": CLIENT_REGION, "string_match": exact, "invert_match": True},
    ]
    text = f"no global access: only clients in {model.only_region} reach this gateway"
    return [
        {
            "name": "no-global-access",
            "match": {"prefix": "/", "headers": headers},
            "direct_response": {"status": status, "body": {"inline_string": text}},
        }
    ]


def _routes_of(route: Route, backends: dict[str, Backend], listener: Listener) -> list[EnvoyJson]:
    """Return a route as Envoy routes: two if a prefix is replaced by the root.

    `/v1` replaced by `/` must turn `/v1/x` into `/x`, not into `//x`.
    """
    change = route.rewrite or route.redirect
    prefix = change.prefix if change else None
    if prefix is None or prefix.strip("/") or route.match.path == "/":
        return [_route(route, backends, _match(route.match), prefix, listener)]
    exact = {**_match(route.match), "path": route.match.path.rstrip("/")}
    exact.pop("path_separated_prefix", None)
    deeper = {**_match(route.match), "prefix": route.match.path.rstrip("/") + "/"}
    deeper.pop("path_separated_prefix", None)
    return [_route(route, backends, match, "/", listener) for match in (exact, deeper)]


def _route(
    route: Route,
    backends: dict[str, Backend],
    match: EnvoyJson,
    prefix: str | None,
    listener: Listener,
) -> EnvoyJson:
    found: EnvoyJson = {
        "name": route.name,
        "match": match,
        **_headers("request", route.request_headers),
        **_headers("response", route.response_headers),
    }
    live = [target for target in route.targets if target.weight > 0]
    if route.redirect is not None:
        found["redirect"] = _redirect(route.redirect, prefix, listener)
    elif not any(target.backend for target in live):
        # the Gateway API's response if no backend is left
        found["direct_response"] = {"status": 500, "body": {"inline_string": _no_backend(route)}}
    else:
        found["route"] = _action(route, live, backends, prefix)
    return found


def _no_backend(route: Route) -> str:
    namespace, name, rule, _ = route.name.rsplit("/", 3)
    return f"HTTPRoute {namespace}/{name}, rule {rule}: no backend can be used"


def _match(match: Match) -> EnvoyJson:
    found: EnvoyJson = {}
    if match.exact:
        found["path"] = match.path
    elif match.path == "/":
        found["prefix"] = "/"
    else:
        found["path_separated_prefix"] = match.path.rstrip("/")
    headers = [_header_match(header) for header in match.headers]
    if headers:
        found["headers"] = headers
    if match.query:
        found["query_parameters"] = [_query_match(query) for query in match.query]
    return found


def _string_match(match: ValueMatch) -> EnvoyJson:
    return {"safe_regex": {"regex": match.value}} if match.regex else {"exact": match.value}


def _header_match(match: ValueMatch) -> EnvoyJson:
    name = ":authority" if match.name == "host" else match.name
    return {"name": name, "string_match": _string_match(match)}


def _query_match(match: ValueMatch) -> EnvoyJson:
    return {"name": match.name, "string_match": _string_match(match)}


def _headers(side: str, change: HeaderChange) -> EnvoyJson:
    found: EnvoyJson = {}
    options = [
        {"header": {"key": key, "value": value.replace("%", "%%")}, "append_action": action}
        for action, pairs in (
            ("OVERWRITE_IF_EXISTS_OR_ADD", change.set),
            ("APPEND_IF_EXISTS_OR_ADD", change.add),
        )
        for key, value in pairs
    ]
    if options:
        found[f"{side}_headers_to_add"] = options
    if change.remove:
        found[f"{side}_headers_to_remove"] = list(change.remove)
    return found


def _action(
    route: Route, targets: list[Target], backends: dict[str, Backend], prefix: str | None
) -> EnvoyJson:
    action: EnvoyJson = {
        "weighted_clusters": {"clusters": [_weighted(t, backends) for t in targets]},
        "timeout": f"{route.timeout_seconds:g}s",
        "idle_timeout": "0s",
        # Google's default: one retry for methods without a body
        "retry_policy": {
            "retry_on": "gateway-error",
            "num_retries": 1,
            "retriable_request_headers": [
                {"name": ":method", "string_match": {"safe_regex": {"regex": _RETRIED_METHODS}}}
            ],
        },
    }
    if any(target.backend is None for target in targets):
        action["cluster_not_found_response_code"] = "INTERNAL_SERVER_ERROR"
    if route.rewrite is not None:
        if route.rewrite.hostname is not None:
            action["host_rewrite_literal"] = route.rewrite.hostname
        if prefix is not None:
            action["prefix_rewrite"] = prefix
    if route.mirror is not None:
        action["request_mirror_policies"] = [_mirror(route.mirror)]
    return action


def _weighted(target: Target, backends: dict[str, Backend]) -> EnvoyJson:
    found: EnvoyJson = {
        "name": target.backend or "invalid",
        "weight": target.weight,
    }
    backend = backends[target.backend] if target.backend else None
    filters: EnvoyJson = {}
    if backend is not None and backend.picker is not None:
        filters[PICKER_FILTER] = typed(
            "ext_proc_route",
            overrides={
                "grpc_service": grpc_service(backend.picker),
                "processing_mode": processing_mode(backend.picker),
                "failure_mode_allow": backend.picker.fail_open,
            },
        )
    if backend is not None and backend.armor:
        filters[FILTER] = armor_route(backend.name, backend.armor)
    return found | ({"typed_per_filter_config": filters} if filters else {})


def _mirror(mirror: Mirror) -> EnvoyJson:
    share = {"numerator": round(mirror.percent * 10_000), "denominator": "MILLION"}
    return {"cluster": mirror.backend, "runtime_fraction": {"default_value": share}}


def _redirect(redirect: Redirect, prefix: str | None, listener: Listener) -> EnvoyJson:
    """Return a redirect; without scheme and port, it keeps the port of its listener."""
    found: EnvoyJson = {"response_code": _REDIRECTS[redirect.status]}
    usual = 443 if listener.certificates else 80
    if redirect.scheme is None and listener.port != usual:
        found["port_redirect"] = listener.port
    if redirect.scheme is not None:
        found["scheme_redirect"] = redirect.scheme
    if redirect.hostname is not None:
        found["host_redirect"] = redirect.hostname
    if redirect.path is not None:
        found["path_redirect"] = redirect.path
    elif prefix is not None:
        found["prefix_rewrite"] = prefix
    return found
