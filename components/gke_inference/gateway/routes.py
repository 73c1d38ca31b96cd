"""Load balancer objects of each model: pool, routes, objectives, health check and timeout.

Gateway API allows 64 matches per rule, 16 rules per route and fewer than 128 matches per route. One
match per served name exceeds that with many adapters, so names are distributed over rules and
routes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from gke_inference.base.manifests import SKIP_AWAIT, Manifest, labels_for, manifest, service
from gke_inference.catalogue.engines import DEFAULT_ENGINE, engine
from gke_inference.catalogue.load_balancing import CATALOGUE_PATH, health_path
from gke_inference.catalogue.pickers import picker_line
from gke_inference.catalogue.response_headers import hidden_headers
from gke_inference.catalogue.versions import ApiKind, api

from .picker import PORT as PICKER_PORT
from .picker import PickerSetup
from .router import MODEL_HEADER
from .settings import PRIORITY

MATCHES_PER_RULE = 60
RULES_PER_ROUTE = 2
BATCH_PRIORITY = -1
RESPONSES_PATH = "/v1/responses"
"""Path that the picker of prefill and decode replicas cannot read (it is upstream's v1.2.0, which
knows only `prompt` and `messages`). The catalog rejects it in OpenAI's error format."""
PROMPT_PATHS = ("/v1/chat/completions", "/v1/completions", RESPONSES_PATH)
"""Paths that clients of a model with live adapters may call."""
MESSAGES_PATH = "/v1/messages"
"""Path of Anthropic's API, which the picker of prefill and decode replicas cannot read either."""
MESSAGES_PATHS = (MESSAGES_PATH, f"{MESSAGES_PATH}/count_tokens")
"""Paths of Anthropic's API that clients of a model with live adapters may call."""
EMBEDDINGS_PATH = "/v1/embeddings"
EDITS_PATH = "/v1/images/edits"
"""Path of image models whose bodies can be forms, which Apigee's policies do not read."""
PATHS_BY_TASK = {
    "embed": (EMBEDDINGS_PATH, "/v1/rerank", "/v1/score"),
    "generate": PROMPT_PATHS,
    "image": ("/v1/images/generations",),
    "video": ("/v1/videos/sync",),
}
"""Paths of the requests to a model, by its task."""
_PREDICTIVE_PATHS = ("", "/config", "/infer", "/ready")
"""Paths below `/v2/models/NAME` that clients may call, of those of the Open Inference Protocol and
of Triton (triton-inference-server/server src/http_server.cc, `model_regex_`)."""
_GRPC_SERVICE = "/inference.GRPCInferenceService"
_MODEL_CALLS = ("ModelConfig", "ModelInfer", "ModelMetadata", "ModelReady")
"""Calls of the Open Inference Protocol that name a model, which the body router reads."""
_SERVER_CALLS = ("ServerLive", "ServerReady")
"""Calls that name none. Of several models, the one whose route is oldest answers."""
H2C = "kubernetes.io/h2c"
"""Protocol of a Service port with HTTP/2 and without TLS (Gateway API, GEP-1911)."""
BASE_MODEL_HEADER = "X-Gateway-Base-Model-Name"
"""Header with the base model of an adapter that the routes do not know. Later body-based routers
(v1.3.0) set the same header."""
_DRAIN_SECONDS_LIMIT = 3600
# An engine answers health checks in the loop that also serves requests, so a busy one is late. If
# all replicas seem unhealthy, every request fails. The interval cannot be shorter than the timeout.
_PROBE_TIMEOUT_SECONDS = 5
_PROBE_INTERVAL_SECONDS = 5
_SAMPLES_A_PERCENT = 10_000
_T = TypeVar("_T")


@dataclass(frozen=True)
class RoutedCanary:
    """A second version of a model, with its own pool and a share of the requests."""

    percent: int
    pool_name: str
    selector: dict[str, str]
    version: str
    engine: str | None = None
    """None for the model's engine."""


@dataclass(frozen=True)
class RoutedNext:
    """A second pool over the replicas of a model, whose picker is of another line."""

    setup: PickerSetup
    percent: int
    pool_name: str


@dataclass(frozen=True)
class RoutedModel:
    """One model behind the gateway, with all defaults resolved."""

    model_name: str
    pool_name: str
    selector: dict[str, str]
    target_port: int
    timeout_seconds: int
    adapters: tuple[str, ...] = ()
    priority: int = PRIORITY
    is_picked: bool = True
    canary: RoutedCanary | None = None
    engine: str = DEFAULT_ENGINE
    threshold_tokens: int | None = None
    """Threshold of a pool with prefill and decode replicas."""
    has_live_adapters: bool = False
    further_models: tuple[str, ...] = ()
    """Names of other models that its pods serve."""
    is_predictive: bool = False
    """Whether its pods speak the Open Inference Protocol, which names the model in the path."""
    grpc_port: int | None = None
    """Port of its pods for gRPC, or None."""
    setup: PickerSetup = field(default_factory=PickerSetup)
    """Line, routing and size of its picker."""
    next: RoutedNext | None = None
    """Second picker over the same replicas, with a share of the requests."""

    @property
    def paths(self) -> list[Manifest]:
        """Paths that clients can reach: all of `/v1`, or only prompt paths with live adapters.

        Of a predictive model, those that neither load models nor change the server's settings.
        An engine that loads adapters at run time may have endpoints for that under `/v1`, which
        read any folder that a request names. Exact paths exclude them, however they are written.
        """
        if self.is_predictive:
            own = f"/v2/models/{self.model_name}"
            return [{"type": "Exact", "value": f"{own}{path}"} for path in _PREDICTIVE_PATHS]
        if not self.has_live_adapters or not engine(self.engine).adapter_api:
            return [{"type": "PathPrefix", "value": "/v1"}]
        return [{"type": "Exact", "value": path} for path in (*PROMPT_PATHS, *MESSAGES_PATHS)]

    @property
    def has_roles(self) -> bool:
        """Whether its pool has prefill and decode replicas."""
        return self.threshold_tokens is not None

    @property
    def served_names(self) -> tuple[str, ...]:
        """Names that a request may use: the model, its adapters and further models, each sorted."""
        return (self.model_name, *sorted(self.adapters), *sorted(self.further_models))

    @property
    def backend(self) -> ApiKind:
        """Target of routes and policies: an InferencePool, or a Service without a picker."""
        return api("inference_pool") if self.is_picked else api("service")

    @property
    def picker_name(self) -> str:
        """Name of the picker's Deployment, Service and service account."""
        return f"{self.pool_name}-picker"

    def backend_ref(self, pool_name: str, weight: int) -> Manifest:
        """Return a route's reference to a pool of this model."""
        port = {} if self.is_picked else {"port": self.target_port}
        return self.backend.reference(pool_name, weight=weight, **port)

    def grpc_ref(self, pool_name: str, weight: int) -> Manifest:
        """Return a route's reference to the Service of a pool for gRPC."""
        return api("service").reference(grpc_name(pool_name), port=self.grpc_port, weight=weight)


def next_model(model: RoutedModel) -> RoutedModel:
    """Return a model as its second picker sees it: the same replicas in a pool of its own.

    Both pools select the same pods. Each picker counts its own requests, and reads the metrics of
    the replicas, which count those of both.

    Raises:
        ValueError: The model has no second picker.
    """
    if model.next is None:
        raise ValueError(f"{model.pool_name} has no second picker")
    return replace(model, next=None, pool_name=model.next.pool_name, setup=model.next.setup)


def pool(
    model: RoutedModel,
    namespace: str,
    failure_mode: str,
    annotations: Mapping[str, str] | None = None,
) -> Manifest:
    """Return the InferencePool, or a Service for a model whose requests the picker cannot read.

    Picker v1.5.0 answers 400 to bodies of reranking, scoring and pooling, in which it looks for a
    `prompt` (pkg/epp/framework/plugins/requesthandling/parsers/openai), so the load balancer itself
    spreads the requests of an embedding model. Nothing waits for that Service, since it is ready
    only while no replica is starting.
    """
    labels = labels_for(model.pool_name, "model-pool")
    if not model.is_picked:
        port = model.target_port
        ports: list[Manifest] = [{"name": "http", "port": port, "targetPort": port}]
        return service(
            model.pool_name,
            namespace,
            "model-pool",
            ports,
            model.selector,
            annotations=SKIP_AWAIT,
        )
    return manifest(
        "inference_pool",
        model.pool_name,
        namespace,
        annotations=None if annotations is None else dict(annotations),
        labels=labels,
        spec={
            "endpointPickerRef": api("service").reference(
                model.picker_name, failureMode=failure_mode, port={"number": PICKER_PORT}
            ),
            "selector": {"matchLabels": model.selector},
            "targetPorts": [{"number": model.target_port}],
        },
    )


def grpc_name(pool_name: str) -> str:
    """Return the name of the Service for gRPC to a pool's pods, and of its policies."""
    return f"{pool_name}-grpc"


def grpc_service(model: RoutedModel, namespace: str, port: int) -> Manifest:
    """Return the Service for gRPC to a model's pods.

    It is not a second port of the pool's Service, because a HealthCheckPolicy applies to all ports
    of a Service. GKE's Gateway has no GRPCRoute (GoogleCloudPlatform/gke-gateway-api, issue 31, of
    2026-06-15), so HTTPRoutes route gRPC by its paths. Backend services have the protocol H2C
    (Compute Engine API, BackendService.protocol). That the Gateway takes it from `appProtocol` is
    assumed: GKE does not declare HTTPRouteBackendProtocolH2C (kubernetes-sigs/gateway-api,
    conformance/reports/v1.6/gke-gateway).
    """
    name = grpc_name(model.pool_name)
    ports: list[Manifest] = [{"appProtocol": H2C, "name": "grpc", "port": port, "targetPort": port}]
    return service(name, namespace, "model-pool", ports, model.selector, annotations=SKIP_AWAIT)


def call_matches(model: RoutedModel, **headers: str) -> list[Manifest]:
    """Return the matches of gRPC calls that name a model, with further headers."""
    paths = [{"type": "Exact", "value": f"{_GRPC_SERVICE}/{call}"} for call in _MODEL_CALLS]
    return [{**name_match(model.model_name, **headers), "path": path} for path in paths]


def routes(
    model: RoutedModel,
    namespace: str,
    gateway: str,
    hostname: str | None,
    gateway_namespace: str | None = None,
) -> list[Manifest]:
    """Return the HTTPRoutes of a model: `POOL`, then `POOL-2` and so on with many adapters.

    Only the paths of clients are routed, so clients cannot reach `/metrics` or an engine's
    developer endpoints. A canary, or a second picker, gets its percentage for every name. It is
    listed even with 0, so that changing the number changes only weights.
    """
    weights = {model.pool_name: 1}
    second = model.canary or model.next
    if second is not None:
        weights = {model.pool_name: 100 - second.percent, second.pool_name: second.percent}
    backends = [model.backend_ref(*each) for each in weights.items()]
    matches = [
        {**name_match(name), "path": path} for name in model.served_names for path in model.paths
    ]
    if model.has_live_adapters:
        matches += [_base_match(model.model_name, path) for path in model.paths]
    rules: list[Manifest] = [rule_of(backends, some) for some in dealt(matches, MATCHES_PER_RULE)]
    if model.grpc_port is not None:
        calls = [*call_matches(model), *({"path": path} for path in _server_calls())]
        rules.append(rule_of([model.grpc_ref(*each) for each in weights.items()], calls))
    head = route_head(gateway_namespace or namespace, gateway, hostname)
    return routes_of(model.pool_name, namespace, head, rules)


def routes_of(name: str, namespace: str, head: Manifest, rules: list[Manifest]) -> list[Manifest]:
    """Return rules as HTTPRoutes: `NAME`, then `NAME-2` and so on, as the limits require."""
    labels = labels_for(name, "model-route")
    return [
        manifest(
            "http_route",
            name if number == 1 else f"{name}-{number}",
            namespace,
            labels=labels,
            spec={**head, "rules": chunk},
        )
        for number, chunk in enumerate(dealt(rules, RULES_PER_ROUTE), start=1)
    ]


def catalogue_route(
    name: str,
    namespace: str,
    gateway: str,
    hostname: str | None,
    port: int,
    *,
    path: str = CATALOGUE_PATH,
    models: Sequence[RoutedModel] = (),
    gateway_namespace: str | None = None,
) -> Manifest:
    """Return the route of the model list, probes, and the APIs that a model's picker cannot read.

    An exact path and a longer prefix take precedence over every model's prefix.
    """
    backends = [api("service").reference(name, port=port, weight=1)]
    unread = [each for model in models if model.has_roles for each in model.served_names]
    refused = [
        {**name_match(each), "path": {"type": "PathPrefix", "value": unreadable}}
        for unreadable in (RESPONSES_PATH, MESSAGES_PATH)
        for each in unread
    ]
    listed: list[Manifest] = [
        {"path": {"type": "PathPrefix", "value": path}},
        {"path": {"type": "Exact", "value": health_path(path)}},
    ]
    rules = [rule_of(backends, matches) for matches in (listed, *dealt(refused, MATCHES_PER_RULE))]
    spec = {**route_head(gateway_namespace or namespace, gateway, hostname), "rules": rules}
    labels = labels_for(name, "model-catalogue")
    return manifest("http_route", name, namespace, labels=labels, spec=spec)


def rule_of(
    backends: Sequence[Manifest], matches: Sequence[Manifest], *filters: Manifest
) -> Manifest:
    """Return a rule of a route, whose responses lose the headers that no client gets.

    GKE declares this filter for all of its classes that were tested (kubernetes-sigs/gateway-api,
    conformance/reports/v1.1.0 to v1.6, gke-gateway: HTTPRouteResponseHeaderModification).
    """
    hidden = {"remove": list(hidden_headers())}
    removal = {"responseHeaderModifier": hidden, "type": "ResponseHeaderModifier"}
    return {
        "backendRefs": list(backends),
        "filters": [*filters, removal],
        "matches": list(matches),
    }


def route_head(namespace: str, gateway: str, hostname: str | None) -> Manifest:
    """Return the part of an HTTPRoute that references its Gateway and hostname."""
    head: Manifest = {"parentRefs": [api("gateway").reference(gateway, namespace=namespace)]}
    if hostname is not None:
        head["hostnames"] = [hostname]
    return head


def objectives(model: RoutedModel, namespace: str) -> list[Manifest]:
    """Return the two objectives that a request may select in `x-gateway-inference-objective`.

    `POOL-interactive` has the model's priority. `POOL-batch` is negative, so it is rejected first
    (429) when every replica is saturated.
    """
    if not model.is_picked:
        return []
    reference = model.backend.reference(model.pool_name)
    kind = picker_line(model.setup.line).apis["objective"]
    priorities = {"batch": BATCH_PRIORITY, "interactive": model.priority}
    return [
        manifest(
            kind,
            f"{model.pool_name}-{name}",
            namespace,
            labels=labels_for(model.pool_name, "model-objective"),
            spec={"poolRef": reference, "priority": priority},
        )
        for name, priority in priorities.items()
    ]


def policies(
    name: str,
    namespace: str,
    target: ApiKind,
    *,
    health_path: str,
    port: int,
    timeout_seconds: int,
    log_percent: float = 100,
    security_policy: str | None = None,
    balancing: Manifest | None = None,
    is_grpc: bool = False,
) -> list[Manifest]:
    """Return the HealthCheckPolicy and GCPBackendPolicy of one backend.

    Without the second, the load balancer cuts a stream after 30 seconds. Without the first, it
    checks `/`, and a healthy engine looks unhealthy.

    Args:
        name: Name of the backend and its policies.
        namespace: Namespace of the backend.
        target: Kind of the backend.
        health_path: Path that returns 200 while the backend is healthy.
        port: Port of that path.
        timeout_seconds: Maximum duration of an answer.
        log_percent: Percentage of requests in the access log.
        security_policy: Cloud Armor policy of the region. Default: none.
        balancing: Fields of the GCPBackendPolicy for the balance between regions. Default: none.
        is_grpc: Whether the backend speaks gRPC and has its standard health service, which is
            checked instead of the path.
    """
    rate = round(log_percent * _SAMPLES_A_PERCENT)
    logging: Manifest = {"enabled": rate > 0, **({"sampleRate": rate} if rate else {})}
    guarded = {} if security_policy is None else {"securityPolicy": security_policy}
    reference = target.reference(name)
    labels = labels_for(name, "model-backend")
    fixed: Manifest = {"port": port, "portSpecification": "USE_FIXED_PORT"}
    return [
        manifest(
            "gateway_health_check",
            name,
            namespace,
            labels=labels,
            spec={
                "default": {
                    "checkIntervalSec": _PROBE_INTERVAL_SECONDS,
                    "config": {"grpcHealthCheck": fixed, "type": "GRPC"}
                    if is_grpc
                    else {
                        "httpHealthCheck": {**fixed, "requestPath": health_path},
                        "type": "HTTP",
                    },
                    "timeoutSec": _PROBE_TIMEOUT_SECONDS,
                },
                "targetRef": reference,
            },
        ),
        manifest(
            "gateway_backend_policy",
            name,
            namespace,
            labels=labels,
            spec={
                "default": {
                    "connectionDraining": {
                        "drainingTimeoutSec": min(timeout_seconds, _DRAIN_SECONDS_LIMIT)
                    },
                    "logging": logging,
                    **guarded,
                    **(balancing or {}),
                    "timeoutSec": timeout_seconds,
                },
                "targetRef": reference,
            },
        ),
    ]


def name_match(served_name: str, **headers: str) -> Manifest:
    """Return the match for a model or adapter name and further headers."""
    wanted = {MODEL_HEADER: served_name, **headers}
    return {
        "headers": [
            {"name": header, "type": "Exact", "value": value} for header, value in wanted.items()
        ],
        "path": {"type": "PathPrefix", "value": "/v1"},
    }


def _server_calls() -> list[Manifest]:
    return [{"type": "Exact", "value": f"{_GRPC_SERVICE}/{call}"} for call in _SERVER_CALLS]


def _base_match(model_name: str, path: Manifest) -> Manifest:
    """Return the match for any adapter of a model, by the base model header."""
    header = {"name": BASE_MODEL_HEADER, "type": "Exact", "value": model_name}
    return {"headers": [header], "path": path}


def dealt(items: list[_T], size: int) -> list[list[_T]]:
    """Return items in groups of at most `size`, in order."""
    return [items[start : start + size] for start in range(0, len(items), size)]
