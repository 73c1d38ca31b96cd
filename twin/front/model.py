"""The model of a global load balancer for its Envoy."""

from dataclasses import dataclass, field

from twin.cluster.gateway.translation.model import Certificate


@dataclass(frozen=True)
class Region:
    """A backend: the gateway of a region, behind Private Service Connect."""

    name: str
    address: str
    port: int
    source: str | None = None
    """Address that the gateway sees: the first one of the published range."""


@dataclass(frozen=True)
class Outliers:
    """Outlier detection: the conditions and the duration of a region's ejection."""

    failures: int = 5
    """Consecutive failures: 502, 503, 504, or no connection."""
    interval_seconds: float = 1
    ejection_seconds: float = 30
    """Base duration, multiplied by the number of ejections."""
    most_percent: int = 50


@dataclass(frozen=True)
class Service:
    """A backend service: its regions in the order of its backends."""

    name: str
    regions: tuple[Region, ...]
    is_tls: bool = True
    outliers: Outliers | None = None
    """None if a failing region stays in use."""
    headers: tuple[tuple[str, str], ...] = ()
    """Custom request headers: names and values, with variables in braces."""
    timeout_seconds: float = 30


@dataclass(frozen=True)
class ClientValidation:
    """Validation of client certificates."""

    anchors: str
    """Certificates of the trusted authorities, in PEM format."""
    is_required: bool
    """Whether connections without a valid certificate are refused."""


@dataclass(frozen=True)
class Path:
    """A path with its own backend service."""

    prefix: str
    service: str
    rewrite: str | None = None
    """Replacement of the prefix."""
    retries: int = 0


@dataclass(frozen=True)
class Front:
    """A global forwarding rule with its backends."""

    name: str
    address: str
    port: int
    services: tuple[Service, ...] = ()
    default: str | None = None
    """Backend service of all other paths; None if all requests are redirected."""
    retries: int = 0
    """Number of retries of requests that reached no gateway."""
    paths: tuple[Path, ...] = ()
    is_tls: bool = True
    certificate: Certificate | None = None
    """Its certificate, for HTTPS."""
    validation: ClientValidation | None = None
    """None if it does not request client certificates."""
    problems: tuple[str, ...] = field(default=())
    """Errors of its parts."""

    @property
    def is_served(self) -> bool:
        """Whether it can serve: HTTPS requires a certificate."""
        return not self.is_tls or self.certificate is not None
