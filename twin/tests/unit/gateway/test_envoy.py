"""Envoy's configuration, and its acceptance by the real Envoy."""

import base64
import json
import subprocess

import pytest

from twin.cluster.gateway.envoy.armor import FILTER
from twin.cluster.gateway.envoy.clusters import clusters_of, endpoints_of
from twin.cluster.gateway.envoy.listeners import listeners_of
from twin.cluster.gateway.envoy.messages import PICKER_FILTER, file_name, response
from twin.cluster.gateway.envoy.routes import tables_of
from twin.cluster.gateway.translation.objects import GATEWAY_GROUP, INTERNAL_CLASS
from twin.cluster.gateway.translation.translate import translate
from twin.providers.gcp.checks.armor_language import HasHeader
from twin.providers.gcp.resources.security_policies import Answer, ArmorRule
from twin.tests.tools import needed
from twin.tests.unit.gateway.builders import (
    POOL_API,
    body_router,
    gateway,
    gateway_class,
    model,
    obj,
    pod,
    policy,
    route,
    rule,
    service,
    snapshot,
    to_pool,
    to_service,
    traffic_extension,
)

GATEWAY = {"group": GATEWAY_GROUP, "kind": "Gateway", "name": "gw"}


ARMED = policy(
    "GCPBackendPolicy",
    "armed",
    {"group": POOL_API, "kind": "InferencePool", "name": "m"},
    securityPolicy="armor",
)


def model_of(*objects):
    rules = (ArmorRule(1, HasHeader("x-forged"), Answer(403)),)
    return translate(snapshot(*objects, armor_named=lambda _: rules)).gateways["ns", "gw"]


def routes_of(*rules, extra=()):
    objects = [gateway(), route("r", *rules), service("w"), *model("m"), *model("n"), *extra]
    (table,) = tables_of(model_of(*objects)).values()
    return table["virtual_hosts"][0]["routes"]


def test_a_route_to_a_pool_asks_the_picker_of_that_pool():
    (found,) = routes_of(rule(to_pool("m")))
    (cluster,) = found["route"]["weighted_clusters"]["clusters"]
    assert cluster["name"] == "pool/ns/m"
    overrides = cluster["typed_per_filter_config"][PICKER_FILTER]["overrides"]
    assert overrides["grpc_service"] == {
        "envoy_grpc": {"cluster_name": "picker/ns/m", "authority": "m-epp.ns.svc:9002"}
    }
    assert overrides["failure_mode_allow"] is False
    assert overrides["processing_mode"] == {
        "request_header_mode": "SEND",
        "request_body_mode": "FULL_DUPLEX_STREAMED",
        "request_trailer_mode": "SEND",
        "response_header_mode": "SEND",
        "response_body_mode": "FULL_DUPLEX_STREAMED",
        "response_trailer_mode": "SEND",
    }
    assert found["route"]["timeout"] == "30s"


def test_a_route_to_a_service_asks_no_picker():
    (found,) = routes_of(rule(to_service("w")))
    assert found["route"]["weighted_clusters"]["clusters"] == [
        {"name": "service/ns/w/80", "weight": 1}
    ]


def test_shares_keep_their_weights_and_a_share_of_nothing_is_left_out():
    (found,) = routes_of(rule(to_pool("m", weight=9), to_pool("n", weight=0), to_service("w")))
    clusters = found["route"]["weighted_clusters"]["clusters"]
    assert [(c["name"], c["weight"]) for c in clusters] == [
        ("pool/ns/m", 9),
        ("service/ns/w/80", 1),
    ]


def test_an_invalid_share_is_answered_with_500_and_the_others_are_served():
    (found,) = routes_of(rule(to_pool("m"), to_pool("gone")))
    assert found["route"]["cluster_not_found_response_code"] == "INTERNAL_SERVER_ERROR"
    (alone,) = routes_of(rule(to_pool("gone")))
    assert alone["direct_response"]["status"] == 500


INNER = gateway(gatewayClassName=INTERNAL_CLASS)
EVERYWHERE = policy("GCPGatewayPolicy", "p", GATEWAY, allowGlobalAccess=True)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ([INNER], ["no-global-access"]),
        ([INNER, EVERYWHERE], []),
        ([gateway()], []),
    ],
)
def test_clients_of_other_regions_reach_internal_gateways_with_global_access_only(made, expected):
    objects = [gateway_class(INTERNAL_CLASS), *made, route("r", rule(to_pool("m"))), *model("m")]
    found = translate(snapshot(*objects, region="us-central1")).gateways["ns", "gw"]
    (table,) = tables_of(found).values()
    *before, _ = table["virtual_hosts"][0]["routes"]
    assert [each["name"] for each in before] == expected


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        ({}, {"prefix": "/"}),
        ({"path": {"value": "/v1/"}}, {"path_separated_prefix": "/v1"}),
        ({"path": {"type": "Exact", "value": "/v1"}}, {"path": "/v1"}),
        (
            {"headers": [{"name": "Host", "value": "h"}]},
            {"prefix": "/", "headers": [{"name": ":authority", "string_match": {"exact": "h"}}]},
        ),
        (
            {"queryParams": [{"name": "q", "type": "RegularExpression", "value": "a+"}]},
            {
                "prefix": "/",
                "query_parameters": [
                    {"name": "q", "string_match": {"safe_regex": {"regex": "a+"}}}
                ],
            },
        ),
    ],
)
def test_matches_in_envoys_words(match, expected):
    (found,) = routes_of(rule(to_service("w"), matches=[match]))
    assert found["match"] == expected


def test_header_filters_set_add_and_remove():
    change = {
        "set": [{"name": "a", "value": "100%"}],
        "add": [{"name": "b", "value": "2"}],
        "remove": ["c"],
    }
    filters = [
        {"type": "RequestHeaderModifier", "requestHeaderModifier": change},
        {"type": "ResponseHeaderModifier", "responseHeaderModifier": {"remove": ["d"]}},
    ]
    (found,) = routes_of(rule(to_service("w"), filters=filters))
    assert found["request_headers_to_add"] == [
        {"header": {"key": "a", "value": "100%%"}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"},
        {"header": {"key": "b", "value": "2"}, "append_action": "APPEND_IF_EXISTS_OR_ADD"},
    ]
    assert found["request_headers_to_remove"] == ["c"]
    assert found["response_headers_to_remove"] == ["d"]


def test_a_redirect_keeps_what_it_does_not_name():
    redirect = {"scheme": "https", "statusCode": 301}
    filters = [{"type": "RequestRedirect", "requestRedirect": redirect}]
    (found,) = routes_of(rule(filters=filters))
    assert found["redirect"] == {
        "response_code": "MOVED_PERMANENTLY",
        "scheme_redirect": "https",
    }


def test_a_redirect_without_scheme_stays_on_the_port_of_its_listener():
    filters = [{"type": "RequestRedirect", "requestRedirect": {"hostname": "h"}}]
    (found,) = routes_of(rule(filters=filters))
    assert found["redirect"] == {
        "response_code": "FOUND",
        "host_redirect": "h",
        "port_redirect": 8080,
    }


def test_a_prefix_replaced_by_the_root_leaves_one_slash():
    filters = [
        {
            "type": "URLRewrite",
            "urlRewrite": {
                "hostname": "h",
                "path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"},
            },
        }
    ]
    match = {"path": {"value": "/openai"}}
    exact, deeper = routes_of(rule(to_service("w"), filters=filters, matches=[match]))
    assert exact["match"] == {"path": "/openai"}
    assert deeper["match"] == {"prefix": "/openai/"}
    assert deeper["route"]["prefix_rewrite"] == "/"
    assert deeper["route"]["host_rewrite_literal"] == "h"


def test_a_mirror_copies_its_percentage():
    filters = [
        {"type": "RequestMirror", "requestMirror": {"backendRef": to_pool("n"), "percent": 5}}
    ]
    (found,) = routes_of(rule(to_pool("m"), filters=filters))
    share = {"numerator": 50_000, "denominator": "MILLION"}
    assert found["route"]["request_mirror_policies"] == [
        {"cluster": "pool/ns/n", "runtime_fraction": {"default_value": share}}
    ]


def test_the_endpoint_of_a_pool_is_the_pickers_choice_else_the_least_loaded(tmp_path):
    objects = [gateway(), route("r", rule(to_pool("m"))), *model("m")]
    cluster = clusters_of(model_of(*objects), tmp_path)["pool/ns/m"]
    (found,) = cluster["load_balancing_policy"]["policies"]
    config = found["typed_extension_config"]["typed_config"]
    assert config["override_host_sources"] == [{"header": "x-gateway-destination-endpoint"}]
    (fallback,) = config["fallback_policy"]["policies"]
    assert fallback["typed_extension_config"]["name"].endswith("least_request")
    assert cluster["common_lb_config"] == {
        "healthy_panic_threshold": {"value": 0},
        "update_merge_window": "0s",
    }


def test_endpoints_are_listed_once_in_order_with_the_port_of_their_check():
    target = {"group": POOL_API, "kind": "InferencePool", "name": "m"}
    check = {"type": "HTTP", "httpHealthCheck": {"requestPath": "/health", "port": 9}}
    objects = [
        gateway(),
        route("r", rule(to_pool("m"))),
        *model("m", replicas=0),
        pod("b", "127.64.1.2", {"model": "m"}),
        pod("a", "127.64.1.1", {"model": "m"}),
        policy("HealthCheckPolicy", "p", target, config=check),
    ]
    found = endpoints_of(model_of(*objects))["pool/ns/m"]["endpoints"][0]["lb_endpoints"]
    assert [e["endpoint"]["address"]["socket_address"]["address"] for e in found] == [
        "127.64.1.1",
        "127.64.1.2",
    ]
    assert found[0]["endpoint"]["health_check_config"] == {"port_value": 9}


def test_filters_are_own_address_then_body_router_then_picker_then_router(tmp_path):
    found = listeners_of(model_of(gateway(), *body_router()), tmp_path, tmp_path / "log")
    manager = found["port-8080"]["filter_chains"][0]["filters"][0]["typed_config"]
    assert [f["name"] for f in manager["http_filters"]] == [
        "gke.published",
        "gke.forwarded",
        "gke.routing_extension.0",
        "gke.endpoint_picker",
        "envoy.filters.http.router",
    ]
    body = manager["http_filters"][2]["typed_config"]["processing_mode"]
    assert body["request_body_mode"] == "FULL_DUPLEX_STREAMED"
    assert body["response_header_mode"] == "SKIP"
    assert manager["early_header_mutation_extensions"][0]["typed_config"]["mutations"] == [
        {"remove": "x-gateway-destination-endpoint"}
    ]


def filters_with(*extensions, tmp_path):
    return filters_of(model_of(gateway(), *body_router(), *extensions), tmp_path)


def filters_of(found, tmp_path):
    found = listeners_of(found, tmp_path, tmp_path / "log")
    manager = found["port-8080"]["filter_chains"][0]["filters"][0]["typed_config"]
    return {f["name"]: f["typed_config"] for f in manager["http_filters"]}


def test_traffic_extensions_come_between_the_body_router_and_the_picker(tmp_path):
    found = filters_with(*traffic_extension(), tmp_path=tmp_path)
    assert list(found) == [
        "gke.published",
        "gke.forwarded",
        "gke.routing_extension.0",
        "gke.traffic_extension.0",
        "gke.endpoint_picker",
        "envoy.filters.http.router",
    ]
    for name, limit in (("gke.routing_extension.0", 131072), ("gke.traffic_extension.0", 131072)):
        assert found[name]["grpc_service"]["envoy_grpc"]["max_receive_message_length"] == limit
    guard = found["gke.traffic_extension.0"]
    assert guard["route_cache_action"] == "RETAIN"
    assert guard["message_timeout"] == "0.5s"
    assert guard["grpc_service"]["envoy_grpc"] == {
        "cluster_name": "traffic/ns/guard/chain/guard",
        "authority": "guard.example.com",
        "max_receive_message_length": 131072,
    }
    assert guard["processing_mode"] == {
        "request_header_mode": "SEND",
        "request_body_mode": "NONE",
        "request_trailer_mode": "SKIP",
        "response_header_mode": "SEND",
        "response_body_mode": "STREAMED",
        "response_trailer_mode": "SKIP",
    }


def test_a_condition_is_evaluated_once_in_front_of_its_chains(tmp_path):
    found = filters_with(
        *traffic_extension(condition="request.headers['x'] == 'y'", metadata={"a": "b"}),
        tmp_path=tmp_path,
    )
    assert list(found)[3:6] == [
        "gke.traffic_extension.metadata",
        "gke.traffic_extension.chain",
        "gke.traffic_extension.0",
    ]
    namespace = "com.google.lb_traffic_extension.guard.chain.guard"
    assert found["gke.traffic_extension.metadata"]["metadata"] == [
        {"metadata_namespace": namespace, "value": {"a": "b"}}
    ]
    policy = found["gke.traffic_extension.chain"]["shadow_rules"]["policies"]["0"]
    headers = {"select_expr": {"operand": {"ident_expr": {"name": "request"}}, "field": "headers"}}
    key = {"const_expr": {"string_value": "x"}}
    assert policy["condition"]["call_expr"] == {
        "function": "_==_",
        "args": [
            {"call_expr": {"function": "_[_]", "args": [headers, key]}},
            {"const_expr": {"string_value": "y"}},
        ],
    }


def test_two_plain_listeners_of_one_port_share_a_route_table():
    listeners = [
        {"name": n, "protocol": "HTTP", "port": 8080, "hostname": f"{n}.example.com"} for n in "ab"
    ]
    found = tables_of(
        model_of(gateway(listeners=listeners), route("r", rule(to_service("w"))), service("w"))
    )
    hosts = [h["domains"] for h in found["port-8080"]["virtual_hosts"]]
    assert hosts == [["a.example.com"], ["b.example.com"]]


def test_the_host_header_alone_chooses_among_the_secure_listeners_of_a_port(tmp_path):
    listeners = [
        {
            "name": name,
            "protocol": "HTTPS",
            "port": 443,
            "hostname": f"{name}.example.com",
            "tls": {"certificateRefs": [{"name": "certificate"}]},
        }
        for name in "ab"
    ]
    content = base64.b64encode(b"PEM").decode()
    certificate = obj("Secret", "certificate", data={"tls.crt": content, "tls.key": content})
    made = model_of(
        gateway(listeners=listeners), route("r", rule(to_service("w"))), service("w"), certificate
    )
    hosts = [h["domains"] for h in tables_of(made)["port-443"]["virtual_hosts"]]
    assert hosts == [["a.example.com"], ["b.example.com"]]
    (found,) = listeners_of(made, tmp_path, tmp_path / "log").values()
    chains = [*found["filter_chains"], found["default_filter_chain"]]
    named = [chain.get("filter_chain_match", {}).get("server_names") for chain in chains]
    assert named == [["a.example.com"], ["b.example.com"], None]
    tables = {chain["filters"][0]["typed_config"]["rds"]["route_config_name"] for chain in chains}
    assert tables == {"port-443"}
    assert len({chain["name"] for chain in chains}) == 3


def everything():
    check = {"type": "GRPC", "grpcHealthCheck": {"port": 9}}
    tcp = {"type": "TCP", "tcpHealthCheck": {}}
    change = {
        "set": [{"name": "a", "value": "100%"}],
        "add": [{"name": "b", "value": "2"}],
        "remove": ["c"],
    }
    prefix = {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}
    full = {"type": "ReplaceFullPath", "replaceFullPath": "/v2"}
    match = {"path": {"value": "/openai"}}
    rules = [
        rule(
            to_pool("m", weight=9),
            to_pool("gone"),
            to_service("w"),
            matches=[
                {
                    "path": {"type": "Exact", "value": "/v1/x"},
                    "headers": [{"name": "a", "type": "RegularExpression", "value": "x.*"}],
                    "queryParams": [{"name": "q", "value": "1"}],
                }
            ],
            filters=[
                {"type": "RequestHeaderModifier", "requestHeaderModifier": change},
                {"type": "ResponseHeaderModifier", "responseHeaderModifier": change},
                {
                    "type": "RequestMirror",
                    "requestMirror": {
                        "backendRef": to_pool("n"),
                        "fraction": {"numerator": 1, "denominator": 3},
                    },
                },
            ],
        ),
        rule(
            to_service("w"),
            matches=[match],
            filters=[{"type": "URLRewrite", "urlRewrite": {"path": prefix, "hostname": "h"}}],
        ),
        rule(
            matches=[{"path": {"value": "/old"}}],
            filters=[
                {
                    "type": "RequestRedirect",
                    "requestRedirect": {"hostname": "h", "path": full, "statusCode": 301},
                }
            ],
        ),
        rule(to_pool("gone"), matches=[{"path": {"value": "/gone"}}]),
    ]
    return [
        gateway(),
        route("r", *rules),
        service("w", appProtocol="kubernetes.io/h2c"),
        pod("w", "127.64.1.1", {"app": "w"}),
        *model("m"),
        *model("n", failure_mode="FailOpen"),
        *body_router(),
        *traffic_extension(
            condition="int(request.headers['x']) > 1 && request.path.matches('^/v1')",
            metadata={"a": "b"},
            forwardHeaders=["x"],
        ),
        ARMED,
        policy(
            "HealthCheckPolicy",
            "g",
            {"group": "", "kind": "Service", "name": "w"},
            config=check,
        ),
        policy(
            "HealthCheckPolicy",
            "t",
            {"group": POOL_API, "kind": "InferencePool", "name": "n"},
            config=tcp,
        ),
        policy(
            "HealthCheckPolicy",
            "bbr",
            {"group": "", "kind": "Service", "name": "bbr"},
            config={"type": "GRPC", "grpcHealthCheck": {"port": 9005}},
        ),
    ]


def test_a_cloud_armor_policy_is_applied_between_the_extensions_and_only_to_its_backend(tmp_path):
    rules = rule(to_pool("m"), to_pool("n"))
    objects = [gateway(), route("r", rules), *model("m"), *model("n"), *body_router()]
    plain, guarded = model_of(*objects), model_of(*objects, ARMED)
    assert FILTER not in filters_of(plain, tmp_path)
    names = list(filters_of(guarded, tmp_path))
    assert names.index("gke.routing_extension.0") < names.index(FILTER) < names.index(PICKER_FILTER)
    (table,) = tables_of(guarded).values()
    clusters = table["virtual_hosts"][0]["routes"][0]["route"]["weighted_clusters"]["clusters"]
    assert [FILTER in each["typed_per_filter_config"] for each in clusters] == [True, False]


def test_the_real_envoy_takes_every_shape_of_it(tmp_path):
    envoy = needed("envoy")
    found = model_of(*everything())
    for name, endpoints in endpoints_of(found).items():
        text = json.dumps(response("endpoints", "1", [endpoints]))
        (tmp_path / file_name(name)).write_text(text)
    listeners = listeners_of(found, tmp_path, tmp_path / "access.log")
    tables = tables_of(found)
    for item in listeners.values():
        unnamed = item.get("default_filter_chain")
        for chain in [*item["filter_chains"], *([unnamed] if unnamed else [])]:
            manager = chain["filters"][0]["typed_config"]
            manager["route_config"] = tables[manager.pop("rds")["route_config_name"]]
            manager["route_config"]["validate_clusters"] = False
    config = {
        "node": {"id": "t", "cluster": "t"},
        "static_resources": {
            "listeners": list(listeners.values()),
            "clusters": list(clusters_of(found, tmp_path).values()),
        },
    }
    file = tmp_path / "envoy.json"
    file.write_text(json.dumps(config))
    done = subprocess.run(
        [envoy, "--mode", "validate", "-c", file, "--disable-hot-restart"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
