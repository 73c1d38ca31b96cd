"""What a gateway shall do, free of Kubernetes' words and of Envoy's: the layer between the two."""

from dataclasses import dataclass, field

from twin.cluster.gateway.translation.cel import Expression


@dataclass(frozen=True, order=True)
class Endpoint:
    """Where a process listens."""

    address: str
    port: int


@dataclass(frozen=True)
class HealthCheck:
    """How a backend's endpoints are probed by the load balancer."""

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
    """A program that sees requests on their way (Envoy's external processing)."""

    name: str
    endpoints: tuple[Endpoint, ...]
    fail_open: bool = False
    """Let requests pass while the program does not answer."""
    tls: bool = True
    authority: str = ""
    events: tuple[str, ...] = ()
    """What it sees, in the words of GKE's extensions; empty: everything."""
    full_duplex: bool = True
    """It sees bodies of requests as they come and decides itself when to send them on."""
    full_duplex_response: bool = True
    """The same of bodies of responses."""
    timeout_seconds: float | None = None
    """Time to answer one message; None: as long as the request lives."""
    forward_headers: tuple[str, ...] = ()
    """Headers it sees; empty: all of them."""
    namespace: str = ""
    """Where its metadata is in what it is sent."""
    metadata: tuple[tuple[str, str], ...] = ()
    observes: bool = False
    """It is not waited for, and cannot change anything."""


@dataclass(frozen=True)
class Chain:
    """Processors that see a request one after the other where its condition holds."""

    name: str
    """`NAMESPACE/EXTENSION/CHAIN`."""
    processors: tuple[Processor, ...]
    conditions: tuple[Expression, ...] = ()
    """One of them must hold; none: the chain is for every request."""


@dataclass(frozen=True)
class Backend:
    """Endpoints that answer requests: the ready pods of a Service port or of an InferencePool."""

    name: str
    """`pool/NAMESPACE/NAME` or `service/NAMESPACE/NAME/PORT`."""
    endpoints: tuple[Endpoint, ...]
    health: HealthCheck | None = None
    picker: Processor | None = None
    """Chooses the endpoint of each request; None: the least loaded one gets it."""
    timeout_seconds: int = 30
    protocol: str = "http"
    """`http`, `h2c` or `https`."""


@dataclass(frozen=True)
class ValueMatch:
    """A condition on a header or a query parameter."""

    name: str
    value: str
    regex: bool = False


@dataclass(frozen=True)
class Match:
    """Conditions that must all hold for a request."""

    path: str = "/"
    exact: bool = False
    """The path as a whole; otherwise its leading elements."""
    method: str | None = None
    headers: tuple[ValueMatch, ...] = ()
    query: tuple[ValueMatch, ...] = ()


@dataclass(frozen=True)
class HeaderChange:
    """Headers set, added and removed."""

    set: tuple[tuple[str, str], ...] = ()
    add: tuple[tuple[str, str], ...] = ()
    remove: tuple[str, ...] = ()


@dataclass(frozen=True)
class Redirect:
    """An answer that sends the client elsewhere; None keeps that part of the URL."""

    status: int = 302
    scheme: str | None = None
    hostname: str | None = None
    port: int | None = None
    path: str | None = None
    prefix: str | None = None


@dataclass(frozen=True)
class Rewrite:
    """Changes of host and path before the request goes on; None keeps that part."""

    hostname: str | None = None
    path: str | None = None
    prefix: str | None = None


@dataclass(frozen=True)
class Mirror:
    """A copy of requests whose answer nobody waits for."""

    backend: str
    percent: float = 100.0


@dataclass(frozen=True)
class Target:
    """A share of a route's requests."""

    backend: str | None
    """None: the reference is invalid, its share is answered with 500."""
    weight: int = 1
    request_headers: HeaderChange = field(default_factory=HeaderChange)
    response_headers: HeaderChange = field(default_factory=HeaderChange)


@dataclass(frozen=True)
class Route:
    """One match of one rule of an HTTPRoute, on one listener."""

    name: str
    """`NAMESPACE/NAME/RULE/MATCH`."""
    match: Match
    targets: tuple[Target, ...] = ()
    timeout_seconds: float = 30
    request_headers: HeaderChange = field(default_factory=HeaderChange)
    response_headers: HeaderChange = field(default_factory=HeaderChange)
    redirect: Redirect | None = None
    rewrite: Rewrite | None = None
    mirrors: tuple[Mirror, ...] = ()


@dataclass(frozen=True)
class Certificate:
    """A server's certificate chain and key, PEM."""

    chain: str
    key: str


@dataclass(frozen=True)
class Listener:
    """A port and host name of a gateway with the routes that are attached to it."""

    name: str
    port: int
    hostname: str = ""
    """Empty: every host."""
    certificates: tuple[Certificate, ...] = ()
    """Where there are some, the listener speaks HTTPS."""
    hosts: tuple[tuple[str, tuple[Route, ...]], ...] = ()
    """Routes in order of precedence, by host name; `*` is every host."""


@dataclass(frozen=True)
class GatewayModel:
    """Everything one Envoy needs to know."""

    namespace: str
    name: str
    address: str
    listeners: tuple[Listener, ...] = ()
    backends: tuple[Backend, ...] = ()
    routing_chains: tuple[Chain, ...] = ()
    """Programs that see requests before a route is chosen; the first chain that matches runs."""
    traffic_chains: tuple[Chain, ...] = ()
    """Programs that see requests once their route is chosen, and responses; again the first."""
