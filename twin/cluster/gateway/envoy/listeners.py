"""Listeners as Envoy listeners: filters in order, the gateway's own responses, access log."""

from pathlib import Path

from twin.cluster.gateway.envoy.access_log import MODEL, fields_of
from twin.cluster.gateway.envoy.extensions import filters_of
from twin.cluster.gateway.envoy.messages import (
    ENDPOINT_HEADER,
    MODEL_HEADER,
    EnvoyJson,
    append_own_address,
    extension,
    file_name,
    has_published_side,
    published_side,
    translate_source,
    typed,
)
from twin.cluster.gateway.envoy.routes import listener_groups, table_name
from twin.cluster.gateway.translation.model import GatewayModel, Listener
from twin.world.rules import all_rules

_RETRY_AFTER_SECONDS = "1"


def listeners_of(model: GatewayModel, folder: Path, access_log: Path) -> dict[str, EnvoyJson]:
    """Return the Envoy listeners of a gateway by name, one per port.

    Those of an internal gateway have a second side, for endpoints of Private Service Connect.

    Args:
        model: the gateway.
        folder: folder of the route tables.
        access_log: file for the access log.
    """
    found = {
        table_name(group): _listener(model, group, folder, access_log)
        for group in listener_groups(model)
    }
    if not model.is_internal or not has_published_side(model.address):
        return found
    return found | {each["name"]: each for each in map(_published, found.values())}


def _published(listener: EnvoyJson) -> EnvoyJson:
    """Return a listener that takes its clients' addresses from a PROXY protocol header."""
    socket = listener["address"]["socket_address"]
    header = extension("envoy.filters.listener.proxy_protocol", "proxy_protocol")
    return {
        **listener,
        "name": f"{listener['name']}-published",
        "address": {"socket_address": {**socket, "address": published_side(socket["address"])}},
        "listener_filters": [header, *listener.get("listener_filters", [])],
    }


def _listener(
    model: GatewayModel, group: tuple[Listener, ...], folder: Path, access_log: Path
) -> EnvoyJson:
    name, port, is_secure = table_name(group), group[0].port, bool(group[0].certificates)
    named = group if is_secure else group[:1]  # without TLS, the route table has all hosts
    manager = _connection_manager(model, name, folder, access_log)
    chains = [_filter_chain(each, manager) for each in named]
    found: EnvoyJson = {
        "name": name,
        "address": {"socket_address": {"address": model.address, "port_value": port}},
        "filter_chains": chains,
    }
    if is_secure:
        found["default_filter_chain"] = _any_name(chains[0])
        found["listener_filters"] = [_TLS_INSPECTOR]
    return found


def _any_name(chain: EnvoyJson) -> EnvoyJson:
    """Return the chain for clients that name no host of a port in TLS (rule gateway.sni)."""
    kept = {key: value for key, value in chain.items() if key != "filter_chain_match"}
    return kept | {"name": f"{chain['name']}-any"}


_TLS_INSPECTOR = {
    "name": "envoy.filters.listener.tls_inspector",
    "typed_config": {
        "@type": "type.googleapis.com/"
        "envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector"
    },
}


def _filter_chain(listener: Listener, manager: EnvoyJson) -> EnvoyJson:
    secure = f"-{listener.name}" if listener.certificates else ""
    chain: EnvoyJson = {
        "name": f"port-{listener.port}{secure}",
        "filters": [
            {
                "name": "envoy.filters.network.http_connection_manager",
                "typed_config": manager,
            }
        ],
    }
    if listener.certificates:
        if listener.hostname:
            chain["filter_chain_match"] = {"server_names": [listener.hostname]}
        chain["transport_socket"] = extension(
            "envoy.transport_sockets.tls",
            "downstream_tls",
            common_tls_context={
                "alpn_protocols": ["h2", "http/1.1"],
                "tls_certificates": [
                    {
                        "certificate_chain": {"inline_string": c.chain},
                        "private_key": {"inline_string": c.key},
                    }
                    for c in listener.certificates
                ],
            },
        )
    return chain


def _connection_manager(
    model: GatewayModel, table: str, folder: Path, access_log: Path
) -> EnvoyJson:
    path = str(folder / file_name(table))
    keepalive = all_rules()["gateway.keepalive"].value
    return typed(
        "hcm",
        stat_prefix=table,
        rds={
            "route_config_name": table,
            "config_source": {"resource_api_version": "V3", "path_config_source": {"path": path}},
        },
        http_filters=[
            translate_source(model.address),
            append_own_address(model.address),
            *filters_of(model),
            extension("envoy.filters.http.router", "router"),
        ],
        # only the picker may name an endpoint
        early_header_mutation_extensions=[
            extension(
                "envoy.http.early_header_mutation.header_mutation",
                "early_headers",
                mutations=[{"remove": ENDPOINT_HEADER}],
            )
        ],
        use_remote_address=True,
        normalize_path=True,
        server_header_transformation="PASS_THROUGH",
        via="1.1 google",
        stream_idle_timeout="0s",
        common_http_protocol_options={"idle_timeout": f"{keepalive}s"},
        local_reply_config=local_replies(),
        access_log=[
            extension(
                "envoy.access_loggers.file",
                "access_log",
                path=str(access_log),
                log_format={"json_format": fields_of(model)},
            )
        ],
    )


def _status(operator: str, value: int, key: str) -> EnvoyJson:
    comparison = {"op": operator, "value": {"default_value": value, "runtime_key": f"reply.{key}"}}
    return {"status_code_filter": {"comparison": comparison}}


def _expression(text: str) -> EnvoyJson:
    name = "envoy.access_loggers.extension_filters.cel"
    return {"extension_filter": extension(name, "cel_filter", expression=text)}


def _flags(*flags: str) -> EnvoyJson:
    return {"response_flag_filter": {"flags": list(flags)}}


def _all(*filters: EnvoyJson) -> EnvoyJson:
    return {"and_filter": {"filters": list(filters)}}


def _reply(
    condition: EnvoyJson, kind: str, message: str, code: int | str, **fields: str
) -> EnvoyJson:
    error: EnvoyJson = {"message": message, "type": kind, **fields, "code": code}
    return {
        "filter": condition,
        "body_format_override": {"json_format": {"error": error}},
    }


def local_replies() -> EnvoyJson:
    """Return the format of the gateway's own responses: OpenAI errors.

    Responses from engines, and from extensions with a content type, are unchanged.
    """
    with_model = {"header_filter": {"header": {"name": MODEL_HEADER, "present_match": True}}}
    overload = _reply(_status("EQ", 429, "429"), "RateLimitError", "%LOCAL_REPLY_BODY%", 429)
    overload["headers_to_add"] = [{"header": {"key": "retry-after", "value": _RETRY_AFTER_SECONDS}}]
    late_extension = _reply(
        _status("EQ", 504, "504.extension"), "InternalServerError", "%LOCAL_REPLY_BODY%", 500
    )
    late_extension["status_code"] = 500  # rule gateway.extension.failure
    return {
        "mappers": [
            {"filter": _expression("'content-type' in response.headers")},
            _reply(
                _all(_flags("NR"), with_model),
                "NotFoundError",
                f"The model `{MODEL}` does not exist.",
                404,
                param="model",
            ),
            _reply(_flags("NR"), "NotFoundError", "No route for %REQ(:METHOD)% %REQ(:PATH)%.", 404),
            overload,
            _reply(
                _all(_status("EQ", 504, "504"), _flags("UT", "SI", "DT")),
                "TimeoutError",
                "The model did not answer in time.",
                504,
            ),
            late_extension,
            _reply(
                _status("EQ", 503, "503"),
                "ServiceUnavailableError",
                "No replica can answer now: %LOCAL_REPLY_BODY%",
                503,
            ),
            _reply(
                _status("GE", 500, "500"),
                "InternalServerError",
                "%LOCAL_REPLY_BODY%",
                "%RESPONSE_CODE%",
            ),
            _reply(
                _status("GE", 400, "400"),
                "BadRequestError",
                "%LOCAL_REPLY_BODY%",
                "%RESPONSE_CODE%",
            ),
        ]
    }
