"""A global load balancer, as much of it as its Envoy needs to know."""

from dataclasses import dataclass, field

from twin.cluster.gateway.translation.model import Certificate


@dataclass(frozen=True)
class Region:
    """One backend: the gateway of a region, behind Private Service Connect."""

    name: str
    address: str
    port: int


@dataclass(frozen=True)
class Outliers:
    """When a region is left out, and for how long."""

    failures: int = 5
    """Answers 502, 503, 504, or no connection, in a row."""
    interval_seconds: float = 1
    ejection_seconds: float = 30
    """Times the number of ejections."""
    most_percent: int = 50


@dataclass(frozen=True)
class Service:
    """A backend service: its regions in the order of its backends."""

    name: str
    regions: tuple[Region, ...]
    is_tls: bool = True
    outliers: Outliers | None = None
    """None: a region that fails is asked on."""
    timeout_seconds: float = 30


@dataclass(frozen=True)
class Path:
    """A path with a backend service of its own."""

    prefix: str
    service: str
    rewrite: str | None = None
    """What comes in the place of the prefix."""
    retries: int = 0


@dataclass(frozen=True)
class Front:
    """One global forwarding rule with what is behind it."""

    name: str
    address: str
    port: int
    services: tuple[Service, ...] = ()
    default: str | None = None
    """Backend service of every other path; None where all requests are redirected."""
    retries: int = 0
    """Tries after the first, of requests that reached no gateway."""
    paths: tuple[Path, ...] = ()
    is_tls: bool = True
    certificate: Certificate | None = None
    """What it proves itself with, where it speaks HTTPS."""
    problems: tuple[str, ...] = field(default=())
    """Why parts of it do not work."""

    @property
    def is_served(self) -> bool:
        """Whether it answers at all: without a certificate nobody can speak HTTPS."""
        return not self.is_tls or self.certificate is not None
