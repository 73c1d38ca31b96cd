"""Shared elements of Envoy's configuration."""

from typing import Any

from twin.cluster.gateway.translation.model import Processor

EnvoyJson = dict[str, Any]

ENDPOINT_HEADER = "x-gateway-destination-endpoint"
"""Header with the endpoint that a picker selected."""
MODEL_HEADER = "x-gateway-model-name"
"""Header with a request's model, from the body router."""
PICKER_FILTER = "gke.endpoint_picker"
FRONT_SOURCE = "127.255.254.1"
"""Source of connections from global load balancers to regional gateways."""
PUBLISHED_HEADER = "x-twin-published"
"""Header of those connections: for the address of each gateway, that of its published range which
Private Service Connect translates the source to (rule gateway.forwarded)."""
_TO_PUBLISHED_SIDE = 6
_UNRESERVED = "127.0."

_EARLY = "envoy.extensions.http.early_header_mutation"
_HTTP = "envoy.extensions.filters.http"
TYPES = {
    "cluster": "envoy.config.cluster.v3.Cluster",
    "endpoints": "envoy.config.endpoint.v3.ClusterLoadAssignment",
    "listener": "envoy.config.listener.v3.Listener",
    "routes": "envoy.config.route.v3.RouteConfiguration",
    "hcm": "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
    "ext_proc": f"{_HTTP}.ext_proc.v3.ExternalProcessor",
    "ext_proc_route": f"{_HTTP}.ext_proc.v3.ExtProcPerRoute",
    "ext_authz": f"{_HTTP}.ext_authz.v3.ExtAuthz",
    "ext_authz_route": f"{_HTTP}.ext_authz.v3.ExtAuthzPerRoute",
    "rbac": f"{_HTTP}.rbac.v3.RBAC",
    "rbac_route": f"{_HTTP}.rbac.v3.RBACPerRoute",
    "set_metadata": f"{_HTTP}.set_metadata.v3.Config",
    "with_matcher": "envoy.extensions.common.matching.v3.ExtensionWithMatcher",
    "skip_filter": "envoy.extensions.filters.common.matcher.action.v3.SkipFilter",
    "metadata_input": "envoy.extensions.matching.common_inputs.network.v3.DynamicMetadataInput",
    "metadata_match": "envoy.extensions.matching.input_matchers.metadata.v3.Metadata",
    "router": f"{_HTTP}.router.v3.Router",
    "access_log": "envoy.extensions.access_loggers.file.v3.FileAccessLog",
    "cel_filter": "envoy.extensions.access_loggers.filters.cel.v3.ExpressionFilter",
    "lua": f"{_HTTP}.lua.v3.Lua",
    "lua_route": f"{_HTTP}.lua.v3.LuaPerRoute",
    "header_mutation": f"{_HTTP}.header_mutation.v3.HeaderMutation",
    "early_headers": f"{_EARLY}.header_mutation.v3.HeaderMutation",
    "proxy_protocol": "envoy.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol",
    "raw_buffer": "envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer",
    "upstream_tls": "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
    "downstream_tls": "envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
    "http_options": "envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
    "override_host": "envoy.extensions.load_balancing_policies.override_host.v3.OverrideHost",
    "least_request": "envoy.extensions.load_balancing_policies.least_request.v3.LeastRequest",
}


def typed(kind: str, **fields: Any) -> EnvoyJson:
    """Return a message with its type."""
    return {"@type": f"type.googleapis.com/{TYPES[kind]}", **fields}


def extension(name: str, kind: str, **fields: Any) -> EnvoyJson:
    """Return an extension with its configuration."""
    return {"name": name, "typed_config": typed(kind, **fields)}


def script(name: str, code: str) -> EnvoyJson:
    """Return a filter that runs a script for each request."""
    return extension(name, "lua", default_source_code={"inline_string": code})


def append_own_address(address: str) -> EnvoyJson:
    """Return the filter that appends a load balancer's address to X-Forwarded-For.

    Envoy itself appends the client's address before (rule gateway.forwarded).
    """
    header = {"key": "x-forwarded-for", "value": address}
    append = {"header": header, "append_action": "APPEND_IF_EXISTS_OR_ADD"}
    mutations = {"request_mutations": [{"append": append}]}
    return extension("gke.forwarded", "header_mutation", mutations=mutations)


_TRANSLATE = """
function envoy_on_request(handle)
  local headers = handle:headers()
  local published, forwarded = headers:get("PUBLISHED"), headers:get("x-forwarded-for")
  headers:remove("PUBLISHED")
  local last = (forwarded or ""):match("([^,%s]+)%s*$")
  if published == nil or last ~= "SOURCE" then return end
  for gateway, address in published:gmatch("([^=,]+)=([^=,]+)") do
    if gateway == "OWN" then
      headers:replace("x-forwarded-for", forwarded:sub(1, #forwarded - #last) .. address)
    end
  end
end
"""


def translate_source(address: str) -> EnvoyJson:
    """Return the filter that gives connections of a global load balancer their published source.

    Args:
        address: Address of the gateway.
    """
    words = {"PUBLISHED": PUBLISHED_HEADER, "SOURCE": FRONT_SOURCE, "OWN": address}
    code = _TRANSLATE
    for word, value in words.items():
        code = code.replace(word, value)
    return script("gke.published", code)


def published_side(address: str) -> str:
    """Return where an internal gateway takes connections of Private Service Connect endpoints.

    These begin with a PROXY protocol header that has the translated source, because no program can
    send from an address of the published range (rule gateway.forwarded).

    Args:
        address: Address of the gateway, such as 127.32.1.1 for 127.38.1.1.
    """
    first, second, rest = address.split(".", 2)
    return f"{first}.{int(second) + _TO_PUBLISHED_SIDE}.{rest}"


def has_published_side(address: str) -> bool:
    """Return whether a gateway has an address of its own."""
    return not address.startswith(_UNRESERVED)


def response(kind: str, version: str, resources: list[EnvoyJson]) -> EnvoyJson:
    """Return the content of a file of dynamic resources."""
    type_url = f"type.googleapis.com/{TYPES[kind]}"
    return {
        "version_info": version,
        "type_url": type_url,
        "resources": [{"@type": type_url, **resource} for resource in resources],
    }


def file_name(cluster: str) -> str:
    """Return a cluster's or route table's name as a file name."""
    return cluster.replace("/", "--") + ".json"


def grpc_service(processor: Processor, message_bytes: int | None = None) -> EnvoyJson:
    """Return the configuration of calls to a processor; the stream lasts as long as the request.

    Args:
        processor: program to call.
        message_bytes: maximum size of its messages in bytes; None for no limit.
    """
    service: EnvoyJson = {"cluster_name": processor.name}
    if processor.authority:
        service["authority"] = processor.authority
    if message_bytes is not None:
        service["max_receive_message_length"] = message_bytes
    return {"envoy_grpc": service}


def processing_mode(processor: Processor) -> EnvoyJson:
    """Return the parts of request and response that a processor sees."""
    seen = set(processor.events) or {
        "RequestHeaders",
        "RequestBody",
        "RequestTrailers",
        "ResponseHeaders",
        "ResponseBody",
        "ResponseTrailers",
    }

    def headers(event: str) -> str:
        return "SEND" if event in seen else "SKIP"

    def body(event: str, *, full_duplex: bool) -> str:
        if event not in seen:
            return "NONE"
        return "FULL_DUPLEX_STREAMED" if full_duplex else "STREAMED"

    return {
        "request_header_mode": headers("RequestHeaders"),
        "request_body_mode": body("RequestBody", full_duplex=processor.full_duplex),
        "request_trailer_mode": headers("RequestTrailers"),
        "response_header_mode": headers("ResponseHeaders"),
        "response_body_mode": body("ResponseBody", full_duplex=processor.full_duplex_response),
        "response_trailer_mode": headers("ResponseTrailers"),
    }
