"""The model of a global load balancer for its Envoy."""

from dataclasses import dataclass, field

from twin.cluster.gateway.translation.model import Certificate
from twin.providers.gcp.resources.security_policies import ArmorRule


@dataclass(frozen=True)
class Region:
    """A backend: the gateway of a region, behind Private Service Connect."""

    name: str
    address: str
    port: int
    source: str | None = None
    """Address that the gateway sees, of the published range."""


@dataclass(frozen=True)
class Outliers:
    """Outlier detection: the conditions and the duration of a region's ejection."""

    errors: int = 5
    """Consecutive errors: any 5xx, or no connection."""
    errors_percent: int = 0
    """Chance of an ejection after so many errors."""
    failures: int = 3
    """Consecutive gateway failures: 502, 503, 504, or no connection."""
    failures_percent: int = 100
    """Chance of an ejection after so many gateway failures."""
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
    signs_in: bool = False
    """Whether Identity-Aware Proxy is enabled."""
    armor: tuple[ArmorRule, ...] = ()
    """Rules of its Cloud Armor policy."""

    @property
    def project(self) -> str:
        """Its project."""
        return self.name.split("/")[1]


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
    host: str | None = None
    """Replacement of the hostname."""
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
    hosts: tuple[tuple[str, tuple[Path, ...]], ...] = ()
    """Paths of single hostnames; everything else is for all others."""
    is_tls: bool = True
    certificate: Certificate | None = None
    """Its certificate, for HTTPS."""
    validation: ClientValidation | None = None
    """None if it does not request client certificates."""
    problems: tuple[str, ...] = field(default=())
    """Errors of its parts."""

    @property
    def guarded(self) -> Service | None:
        """The backend service with Identity-Aware Proxy, if there is one."""
        return next((each for each in self.services if each.signs_in), None)

    @property
    def is_served(self) -> bool:
        """Whether it can serve: HTTPS requires a certificate."""
        return not self.is_tls or self.certificate is not None
