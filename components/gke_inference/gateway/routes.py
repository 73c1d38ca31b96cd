"""What the load balancer needs for each model: pool, routes, objectives, health check, timeout.

Gateway API allows 64 matches a rule, 16 rules a route and fewer than 128 matches a route. One
match per served name would hit that with many adapters, so names are dealt over rules and routes.
"""

from dataclasses import dataclass
from typing import TypeVar

from gke_inference.base.manifests import SKIP_AWAIT, Manifest, labels_for, manifest, service
from gke_inference.catalogue.load_balancing import CATALOGUE_PATH
from gke_inference.catalogue.versions import ApiKind, api

from .picker import PORT as PICKER_PORT
from .router import MODEL_HEADER

MATCHES_PER_RULE = 60
RULES_PER_ROUTE = 2
BATCH_PRIORITY = -1
PROMPT_PATHS = ("/v1/chat/completions", "/v1/completions")
"""What clients of a model with live adapters may call."""
UNSERVED_PATHS = ("/v1/responses",)
"""What engines have and no picker can route: the catalogue refuses it in OpenAI's form."""
BASE_MODEL_HEADER = "X-Gateway-Base-Model-Name"
"""Names the model of an adapter that the routes do not know; later body-based routers (v1.3.0)
write the same header."""
_DRAIN_SECONDS_LIMIT = 3600
_SAMPLES_A_PERCENT = 10_000
_T = TypeVar("_T")


@dataclass(frozen=True)
class RoutedCanary:
    """A second version of a model: a pool of its own that takes a share of the requests."""

    percent: int
    pool_name: str
    selector: dict[str, str]
    version: str
    engine: str | None = None
    """None: the model's."""


@dataclass(frozen=True)
class RoutedModel:
    """One model behind the gateway, with every default filled in."""

    model_name: str
    pool_name: str
    selector: dict[str, str]
    target_port: int
    timeout_seconds: int
    adapters: tuple[str, ...] = ()
    priority: int = 10
    is_picked: bool = True
    canary: RoutedCanary | None = None
    engine: str = "vllm"
    threshold_tokens: int | None = None
    """Of a pool with prefill and decode replicas."""
    has_live_adapters: bool = False

    @property
    def paths(self) -> list[Manifest]:
        """The paths clients reach: all of `/v1`, or what answers prompts where loading is allowed.

        An engine that loads adapters at run time has endpoints for that under `/v1` too, and they
        read any folder they are told. Exact paths leave them out, in whatever way they are written.
        """
        if not self.has_live_adapters:
            return [{"type": "PathPrefix", "value": "/v1"}]
        return [{"type": "Exact", "value": path} for path in PROMPT_PATHS]

    @property
    def served_names(self) -> tuple[str, ...]:
        """The names a request may use: the model first, then its adapters in order."""
        return (self.model_name, *sorted(self.adapters))

    @property
    def backend(self) -> ApiKind:
        """What routes and policies point at: an InferencePool, or a Service without a picker."""
        return api("inference_pool") if self.is_picked else api("service")

    @property
    def picker_name(self) -> str:
        """Name of the picker's Deployment, Service and account."""
        return f"{self.pool_name}-picker"

    def backend_ref(self, pool_name: str, weight: int) -> Manifest:
        """Returns a route's reference to a pool of this model."""
        made: Manifest = {
            "group": self.backend.group,
            "kind": self.backend.kind,
            "name": pool_name,
            "weight": weight,
        }
        if not self.is_picked:
            made["port"] = self.target_port
        return made


def pool(model: RoutedModel, namespace: str, failure_mode: str) -> Manifest:
    """Returns the InferencePool, or a Service for a model the picker cannot read.

    Picker v1.2.0 answers 400 to a body with neither `prompt` nor `messages`
    (pkg/epp/util/request/body.go), so embeddings are spread by the load balancer itself. Nothing
    waits for that Service: it would be ready only when no replica is starting.
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
        labels=labels,
        spec={
            "endpointPickerRef": {
                "failureMode": failure_mode,
                "group": "",
                "kind": api("service").kind,
                "name": model.picker_name,
                "port": {"number": PICKER_PORT},
            },
            "selector": {"matchLabels": model.selector},
            "targetPorts": [{"number": model.target_port}],
        },
    )


def routes(
    model: RoutedModel,
    namespace: str,
    gateway: str,
    hostname: str | None,
    gateway_namespace: str | None = None,
) -> list[Manifest]:
    """Returns the HTTPRoutes of a model: `POOL`, then `POOL-2`, … when it has many adapters.

    Only `/v1` is routed, so nobody outside reaches `/metrics` or an engine's developer endpoints.
    A canary has its percentage of every name; with 0 it is named all the same, so that raising and
    lowering the number changes weights and nothing else.
    """
    backends = [model.backend_ref(model.pool_name, 1)]
    if model.canary is not None:
        share = model.canary.percent
        backends = [
            model.backend_ref(model.pool_name, 100 - share),
            model.backend_ref(model.canary.pool_name, share),
        ]
    matches = [
        {**name_match(name), "path": path} for name in model.served_names for path in model.paths
    ]
    if model.has_live_adapters:
        matches += [_base_match(model.model_name, path) for path in model.paths]
    rules: list[Manifest] = [
        {"backendRefs": backends, "matches": some} for some in dealt(matches, MATCHES_PER_RULE)
    ]
    head = route_head(gateway_namespace or namespace, gateway, hostname)
    return routes_of(model.pool_name, namespace, head, rules)


def routes_of(name: str, namespace: str, head: Manifest, rules: list[Manifest]) -> list[Manifest]:
    """Returns rules as HTTPRoutes: `NAME`, then `NAME-2`, … as many as the limits ask for."""
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
    gateway_namespace: str | None = None,
) -> Manifest:
    """Returns the route of `GET /v1/models`, and of paths that no model answers.

    An exact path and a longer prefix win over every model's prefix. A list on another path is one
    of several behind a Gateway, so that the paths without an answer are somebody else's.
    """
    unserved = UNSERVED_PATHS if path == CATALOGUE_PATH else ()
    rule = {
        "backendRefs": [
            {"group": "", "kind": api("service").kind, "name": name, "port": port, "weight": 1}
        ],
        "matches": [
            {"method": "GET", "path": {"type": "Exact", "value": path}},
            *({"path": {"type": "PathPrefix", "value": each}} for each in unserved),
        ],
    }
    spec = {**route_head(gateway_namespace or namespace, gateway, hostname), "rules": [rule]}
    labels = labels_for(name, "model-catalogue")
    return manifest("http_route", name, namespace, labels=labels, spec=spec)


def route_head(namespace: str, gateway: str, hostname: str | None) -> Manifest:
    """Returns the part of an HTTPRoute that ties it to its Gateway and host."""
    parent = {
        "group": api("gateway").group,
        "kind": api("gateway").kind,
        "name": gateway,
        "namespace": namespace,
    }
    head: Manifest = {"parentRefs": [parent]}
    if hostname is not None:
        head["hostnames"] = [hostname]
    return head


def objectives(model: RoutedModel, namespace: str) -> list[Manifest]:
    """Returns the two objectives a request may name in `x-gateway-inference-objective`.

    `POOL-interactive` has the model's priority; `POOL-batch` is negative, so it is the first to be
    refused (429) when every replica is saturated.
    """
    if not model.is_picked:
        return []
    reference = {"group": model.backend.group, "kind": model.backend.kind, "name": model.pool_name}
    priorities = {"batch": BATCH_PRIORITY, "interactive": model.priority}
    return [
        manifest(
            "inference_objective",
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
) -> list[Manifest]:
    """Returns HealthCheckPolicy and GCPBackendPolicy of one backend.

    Without the second a stream is cut after the load balancer's 30 seconds; without the first it
    checks `/` and an engine that is alive looks dead.

    Args:
        name: Of the backend, and of its policies.
        namespace: Of the backend.
        target: Kind of the backend.
        health_path: Answers 200 while the backend is well.
        port: Of that path.
        timeout_seconds: Longest answer.
        log_percent: Share of requests with a line in the access log.
        security_policy: Cloud Armor policy of the region. Default: none.
    """
    rate = round(log_percent * _SAMPLES_A_PERCENT)
    logging: Manifest = {"enabled": rate > 0, **({"sampleRate": rate} if rate else {})}
    guarded = {} if security_policy is None else {"securityPolicy": security_policy}
    reference = {"group": target.group, "kind": target.kind, "name": name}
    labels = labels_for(name, "model-backend")
    return [
        manifest(
            "gateway_health_check",
            name,
            namespace,
            labels=labels,
            spec={
                "default": {
                    "checkIntervalSec": 2,
                    "config": {
                        "httpHealthCheck": {
                            "port": port,
                            "portSpecification": "USE_FIXED_PORT",
                            "requestPath": health_path,
                        },
                        "type": "HTTP",
                    },
                    "timeoutSec": 2,
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
                    "timeoutSec": timeout_seconds,
                },
                "targetRef": reference,
            },
        ),
    ]


def name_match(served_name: str, **headers: str) -> Manifest:
    """Returns the match of a model's or an adapter's name, and of further headers."""
    wanted = {MODEL_HEADER: served_name, **headers}
    return {
        "headers": [
            {"name": header, "type": "Exact", "value": value} for header, value in wanted.items()
        ],
        "path": {"type": "PathPrefix", "value": "/v1"},
    }


def _base_match(model_name: str, path: Manifest) -> Manifest:
    """Returns the match of any adapter of a model, named by a header of its own."""
    header = {"name": BASE_MODEL_HEADER, "type": "Exact", "value": model_name}
    return {"headers": [header], "path": path}


def dealt(items: list[_T], size: int) -> list[list[_T]]:
    """Returns items in groups of at most `size`, in order."""
    return [items[start : start + size] for start in range(0, len(items), size)]
