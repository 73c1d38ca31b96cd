"""A gateway's desired behavior, independent of Kubernetes and Envoy: the layer between the two."""

from dataclasses import dataclass, field

from twin.cluster.gateway.translation.cel import Expression
from twin.providers.gcp.resources.security_policies import ArmorRule


@dataclass(frozen=True, order=True)
class Endpoint:
    """Address and port of a process."""

    address: str
    port: int
    probe_port: int | None = field(default=None, compare=False)
    """Actual port that a health check with a port connects to; None if it is that of the check."""


@dataclass(frozen=True)
class HealthCheck:
    """The load balancer's health check for a backend's endpoints."""

    kind: str
    """`HTTP`, `HTTPS`, `HTTP2`, `GRPC` or `TCP`."""
    path: str = "/"
    host: str = ""
    port: int | None = None
    """None: the serving port."""
    interval_seconds: int = 15
    timeout_seconds: int = 15
    healthy_threshold: int = 1
    unhealthy_threshold: int = 2
    grpc_service: str = ""


@dataclass(frozen=True)
class Processor:
    """A program that processes requests (Envoy's external processing)."""

    name: str
    endpoints: tuple[Endpoint, ...]
    fail_open: bool = False
    """Whether requests pass if the program does not answer."""
    tls: bool = True
    authority: str = ""
    events: tuple[str, ...] = ()
    """Events that it processes, named as in GKE's extensions; empty for all."""
    full_duplex: bool = True
    """Whether it receives request bodies as a stream and decides when to pass them on."""
    full_duplex_response: bool = True
    """The same for response bodies."""
    timeout_seconds: float | None = None
    """Timeout per message; None for the duration of the request."""
    forward_headers: tuple[str, ...] = ()
    """Headers that it receives; empty for all."""
    namespace: str = ""
    """Namespace of its metadata."""
    metadata: tuple[tuple[str, str], ...] = ()
    observes: bool = False
    """Whether it only observes: the gateway does not wait for it, and it cannot change anything."""
    health: HealthCheck | None = None
    """Check of its Service; None for a service of Google's, which the twin probes itself."""
    dropped: tuple[str, ...] = ()
    """Flows from the load balancer that the network drops, one sentence each."""
    stream_seconds: int | None = None
    """Time after which its stream of a request ends; None if only the request ends it."""


@dataclass(frozen=True)
class Chain:
    """Processors that run one after another for requests that match a condition."""

    name: str
    """`NAMESPACE/EXTENSION/CHAIN`."""
    processors: tuple[Processor, ...]
    conditions: tuple[Expression, ...] = ()
    """At least one must hold; if empty, the chain applies to every request."""


@dataclass(frozen=True)
class Backend:
    """The endpoints for requests: ready pods of a Service port or of an InferencePool."""

    name: str
    """`pool/NAMESPACE/NAME` or `service/NAMESPACE/NAME/PORT`."""
    endpoints: tuple[Endpoint, ...]
    health: HealthCheck | None = None
    picker: Processor | None = None
    """Selects the endpoint of each request; None for the least loaded one."""
    timeout_seconds: int = 30
    protocol: str = "http"
    """`http`, `h2c` or `https`."""
    dropped: tuple[str, ...] = ()
    """Flows from the load balancer that the network drops, one sentence each."""
    armor: tuple[ArmorRule, ...] = ()
    """Rules of its Cloud Armor policy."""
    tiers: tuple[tuple[tuple[Endpoint, int], ...], ...] = ()
    """Instead of `endpoints`: endpoints with weights, each tier for the failure of those before."""


@dataclass(frozen=True)
class ValueMatch:
    """A condition on a header or a query parameter."""

    name: str
    value: str
    regex: bool = False


@dataclass(frozen=True)
class Match:
    """Conditions that a request must all meet."""

    path: str = "/"
    exact: bool = False
    """Whether the whole path must match; otherwise its leading elements."""
    headers: tuple[ValueMatch, ...] = ()
    query: tuple[ValueMatch, ...] = ()


@dataclass(frozen=True)
class HeaderChange:
    """Headers to set, add and remove."""

    set: tuple[tuple[str, str], ...] = ()
    add: tuple[tuple[str, str], ...] = ()
    remove: tuple[str, ...] = ()


@dataclass(frozen=True)
class Redirect:
    """A redirect; None keeps that part of the URL."""

    status: int = 302
    scheme: str | None = None
    hostname: str | None = None
    path: str | None = None
    prefix: str | None = None


@dataclass(frozen=True)
class Rewrite:
    """A rewrite of host and leading path elements; None keeps that part."""

    hostname: str | None = None
    prefix: str | None = None


@dataclass(frozen=True)
class Mirror:
    """A mirror: copies of requests whose responses are ignored."""

    backend: str
    percent: float = 100.0


@dataclass(frozen=True)
class Target:
    """A share of a route's requests."""

    backend: str | None
    """None if the reference is invalid; its share of requests gets 500."""
    weight: int = 1


@dataclass(frozen=True)
class Route:
    """A match of an HTTPRoute rule on one listener."""

    name: str
    """`NAMESPACE/NAME/RULE/MATCH`."""
    match: Match
    targets: tuple[Target, ...] = ()
    timeout_seconds: float = 30
    request_headers: HeaderChange = field(default_factory=HeaderChange)
    response_headers: HeaderChange = field(default_factory=HeaderChange)
    redirect: Redirect | None = None
    rewrite: Rewrite | None = None
    mirror: Mirror | None = None


@dataclass(frozen=True)
class Certificate:
    """A server's certificate chain and key, PEM."""

    chain: str
    key: str


@dataclass(frozen=True)
class Listener:
    """A port and host name of a gateway with the attached routes."""

    name: str
    port: int
    hostname: str = ""
    """Empty for every host."""
    certificates: tuple[Certificate, ...] = ()
    """If there are any, the listener uses HTTPS."""
    hosts: tuple[tuple[str, tuple[Route, ...]], ...] = ()
    """Routes in order of precedence, by host name; `*` is every host."""


@dataclass(frozen=True)
class TextMatch:
    """A condition on a text."""

    kind: str
    """`Exact`, `Prefix`, `Suffix` or `Contains`."""
    value: str
    ignore_case: bool = False


@dataclass(frozen=True)
class Operation:
    """Requests with any of the values of each field; an empty field matches every request."""

    methods: tuple[str, ...] = ()
    hosts: tuple[TextMatch, ...] = ()
    paths: tuple[TextMatch, ...] = ()
    headers: tuple[tuple[str, TextMatch], ...] = ()
    """Headers by name, of which all must match."""


@dataclass(frozen=True)
class AuthorizationRule:
    """A rule of an authorization policy."""

    name: str
    """`NAMESPACE/POLICY/RULE`."""
    operations: tuple[Operation, ...] = ()
    """At least one must match; if empty, every request does."""
    not_operations: tuple[Operation, ...] = ()
    """None may match."""
    needs_principal: bool = False
    """Whether only clients with a verified certificate can match."""
    condition: Expression | None = None


@dataclass(frozen=True)
class Authorization:
    """The requests that a gateway lets pass."""

    deny: tuple[AuthorizationRule, ...] = ()
    allow: tuple[AuthorizationRule, ...] = ()
    has_allow: bool = False
    """Whether only requests that a rule of `allow` matches pass."""
    is_closed: bool = False
    """Whether every request is rejected, because the twin cannot evaluate a policy."""


@dataclass(frozen=True)
class GatewayModel:
    """The complete model of one Envoy."""

    namespace: str
    name: str
    address: str
    listeners: tuple[Listener, ...] = ()
    backends: tuple[Backend, ...] = ()
    routing_chains: tuple[Chain, ...] = ()
    """Programs called before a route is selected; the first chain that matches runs."""
    traffic_chains: tuple[Chain, ...] = ()
    """Programs called after the route is selected, and for responses; the first match runs."""
    authorization: Authorization | None = None
    """None if every request passes."""
    only_region: str = ""
    """The region whose clients reach the gateway; empty if all do."""
    is_internal: bool = False
    """Whether it is that of an internal load balancer, which can be published."""
