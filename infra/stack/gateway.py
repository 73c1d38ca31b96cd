"""The gateway: one endpoint for all models."""

from enum import StrEnum

from pydantic import Field, PositiveInt

from gke_inference.catalogue.load_balancing import HTTPS_PORT, REDIRECT_PORT
from gke_inference.catalogue.pickers import GIE, PickerLineName
from gke_inference.front.settings import ROUTER_CONCURRENCY, RouterConcurrency
from gke_inference.gateway.settings import (
    TTL_SECONDS,
    UTILIZATION_PERCENT,
    DrainSeconds,
    Exposure,
    LogPercent,
    MostQueued,
    PickerReplicas,
    RequestPercent,
    RequestsPerMinute,
    RouterReplicas,
    SessionHeader,
    SessionHeaders,
    TtlSeconds,
    UtilizationPercent,
    WaitSeconds,
)
from gke_inference.intent.cloud_run import IdleInstances, MostInstances
from gke_inference.settings import Settings
from gke_inference.settings.fields import (
    Hostname,
    ModelName,
    Name,
    Port,
    ProjectId,
    RegionName,
)


class Front(StrEnum):
    """How clients are routed to the gateways of several regions."""

    DNS = "dns"
    GLOBAL = "global"
    INTERNAL = "internal"


class Fleet(Settings):
    """The multi-cluster inference gateway of `front: internal`."""

    config_region: RegionName | None = None
    """Region whose cluster holds the Gateway and its routes. By default, the first region with
    models, by name. While it is down, the gateway serves with its last configuration."""
    target_utilization_percent: UtilizationPercent = UTILIZATION_PERCENT
    """Average KV cache use of a region's replicas, in percent, above which new requests overflow
    to the next region."""


class FrontRouter(Settings):
    """Body-based routing at `front: global`.

    A service on Cloud Run in each region with a gateway reads the model of a request, and sends it
    to the nearest region that serves the model.
    """

    concurrency: RouterConcurrency = ROUTER_CONCURRENCY
    """Requests that one instance passes on at a time, streams included."""
    fallbacks: dict[ModelName, ModelName] = Field(default_factory=dict[str, str])
    """Backend that answers for a model while no region serves it, by the name of the model. The
    gate of another region checks and counts the request as one for the backend."""
    guardrail: Name | None = None
    """Guardrail of the kind `model-armor` that checks the prompts of all models before they reach a
    region. By default, only the guardrails of models and teams check them, in the region."""
    max_instances: MostInstances = 10
    """Maximum number of instances in each region."""
    min_instances: IdleInstances = 1
    """Instances that always run in each region. With 0, the first request after a pause waits for
    a start."""


class Publish(Settings):
    """Publishes the regional gateways to other networks with Private Service Connect."""

    consumers: dict[ProjectId, PositiveInt] = Field(min_length=1)
    """Maximum number of endpoints that each project may connect to the gateway of a region."""


class Dns(Settings):
    """An existing Cloud DNS zone, in which the stack creates the records of its hostname.

    It must be public for external gateways, and private for internal ones behind a `front`.
    """

    zone: Name
    """Name of the zone."""
    project: ProjectId | None = None
    """Project of the zone. By default, the platform's project."""
    certificate_zone: Name | None = None
    """Name of a public zone for the record that authorizes an issued certificate. Required if
    `zone` is private. By default, `zone`."""
    certificate_project: ProjectId | None = None
    """Project of `certificate_zone`. By default, `project`."""
    ttl_seconds: TtlSeconds = TTL_SECONDS
    """TTL of the records."""


class FairSessions(Settings):
    """Equal parts of the programs of a team, and of the sessions of a program.

    A program is a key, the subject of a token, or the client certificates of a team. While no
    replica has room, a request goes as if it had arrived a second later for each request that its
    session has in flight, and for each other session of its program that has one.
    """

    headers: SessionHeaders[tuple[SessionHeader, ...]] = (
        "x-session-id",
        "x-claude-code-session-id",
        "x-session-affinity",
        "session-id",
    )
    """Headers with the id of a session; the first one that a request has counts. A request without
    one belongs to the session of its conversation, which is known by the system prompt and the
    first message of the user. By default, a common name and those of Claude Code, OpenCode and
    Codex."""


class Fairness(Settings):
    """Turns of the teams at a full model.

    Requests for which no replica has room wait in the model's picker, in a queue for each team. The
    queues take turns, so a team that sends more waits longer itself. Requests of a higher priority
    always go first.
    """

    max_wait_seconds: WaitSeconds = 8
    """Seconds after which a waiting request is rejected with 429. The load balancer's own limit is
    assumed to be 10 seconds."""
    max_queued: MostQueued | None = None
    """Maximum number of waiting requests of a priority; the picker rejects more with 429. By
    default, picker `llm-d-router` has 5,000 and `gie` no limit."""
    sessions: FairSessions | None = None
    """Turns within a team. By default, the requests of a team wait in order of arrival."""


class NextPicker(Settings):
    """A second picker for each model, to move from one line to another without losing requests."""

    line: PickerLineName
    """Line of the second picker: `llm-d-router` or `gie`."""
    percent: RequestPercent = 0
    """Share of the requests of every model that the second picker gets, in percent."""


class Gateway(Settings):
    """The gateway of each region."""

    exposure: Exposure
    """`external` for the internet, `internal` for the network."""
    hostname: Hostname | None = None
    """Hostname in its certificate. Required with a certificate."""
    certificate: Name | None = None
    """Name of a Certificate Manager certificate: regional, also a global one with `front: global`,
    and global of the scope ALL_REGIONS with `front: internal`. Without one, the gateway serves
    HTTP."""
    log_percent: LogPercent = 10
    """Percentage of requests in the load balancers' access logs, which are billed by volume."""
    fairness: Fairness | None = None
    """Whether teams take turns at a full model. Requires `clients`. By default, requests wait in
    the engines in order of arrival."""
    global_access: bool = False
    """Internal only: whether clients in other regions of the network reach the gateway. By default,
    only clients in its region do. With a `front`, that determines it."""
    requests_per_minute: RequestsPerMinute | None = None
    """External only: requests per minute that one IP address may send to one model, 600 by default.
    Cloud Armor rejects more with 429. Clients behind one NAT share an IP address."""
    picker: PickerLineName = GIE
    """Line of the endpoint pickers: `gie`, of gateway-api-inference-extension, which has no new
    releases, or `llm-d-router`, its successor."""
    picker_drain_seconds: DrainSeconds | None = None
    """Picker `llm-d-router`: time in seconds that a picker continues to answer after its end was
    requested, 30 by default."""
    next_picker: NextPicker | None = None
    """Second picker for each model, over the same replicas. Not during a canary."""
    picker_replicas: PickerReplicas | None = None
    """Endpoint pickers per model: one is active, the others are on standby. By default, 2 where
    protection is on and 1 elsewhere. While no picker is available, requests go to any replica. They
    have no disruption budget: only the active one is ready, so a budget would block draining its
    node."""
    router_replicas: RouterReplicas | None = None
    """Replicas of the router, which reads the model name from each request, and of the model
    catalog. By default, 3 where protection is on and 2 elsewhere."""
    issue_certificate: bool = False
    """Whether to create that certificate, authorized by records in `dns.certificate_zone`. By
    default, it must exist and be ACTIVE."""
    dns: Dns | None = None
    """DNS zone in which to create the records of the hostname. By default, you create them
    yourself."""
    port: Port | None = None
    """Port it listens on. By default, 443 with a certificate and 80 without."""
    front: Front | None = None
    """One endpoint for all regions: `dns` resolves to the nearest healthy region, `global` is a
    global load balancer with one IP address, `internal` is a multi-cluster gateway with an address
    in each region. By default, each region has its own endpoint."""
    front_router: FrontRouter | None = None
    """Body-based routing at `front: global`, so that the base URL serves the models of all regions,
    and fallbacks for models whose regions are lost. By default, the base URL leads to the regions
    that serve every model."""
    fleet: Fleet | None = None
    """Settings of `front: internal`. By default, those of its fields."""
    drain: tuple[RegionName, ...] = ()
    """Regions that `front` sends no traffic to. With `dns` and `global`, their own gateways
    continue to serve."""
    publish: Publish | None = None
    """Projects that may connect through Private Service Connect. Only for internal gateways and
    those behind `front: global`."""

    @property
    def picker_lines(self) -> tuple[str, ...]:
        """Lines of the pickers: that of the models' own, and that of the second ones."""
        following = self.next_picker
        return (self.picker, *(() if following is None else (following.line,)))

    @property
    def has_internal_gateways(self) -> bool:
        """Whether the regional gateways are reachable from networks only."""
        return self.exposure is Exposure.INTERNAL or self.front is Front.GLOBAL

    @property
    def regional_exposure(self) -> Exposure:
        """Exposure of the regional gateways: those behind a global front are internal."""
        return Exposure.INTERNAL if self.has_internal_gateways else Exposure.EXTERNAL

    @property
    def is_published(self) -> bool:
        """Whether the regional gateways are published with Private Service Connect."""
        return self.front is Front.GLOBAL or self.publish is not None

    @property
    def has_fleet_gateway(self) -> bool:
        """Whether one gateway for all clusters replaces the gateways of regions."""
        return self.front is Front.INTERNAL

    @property
    def forwarded_hops(self) -> int:
        """Position of a client's address in X-Forwarded-For, counted from the end.

        Each load balancer appends two addresses, that of its own client and its own
        (docs.cloud.google.com/load-balancing/docs/https#x-forwarded-for_header). A client of the
        global load balancer is in front of those that the gateway of a region appends.
        """
        balancers = 2 if self.front is Front.GLOBAL else 1
        return 2 * balancers

    @property
    def has_global_access(self) -> bool:
        """Whether clients in other regions of the network reach an internal gateway.

        The global load balancer connects from anywhere, and Cloud DNS answers clients of a region
        whose gateway is unhealthy with the gateway of another one.
        """
        is_failover = self.front is Front.DNS and self.exposure is Exposure.INTERNAL
        return self.front is Front.GLOBAL or is_failover or self.global_access

    @property
    def needs_private_zone(self) -> bool:
        """Whether the record of the hostname must be in a private zone.

        Cloud DNS checks the health of internal load balancers for private zones only
        (docs.cloud.google.com/dns/docs/routing-policies-overview).
        """
        is_checked = self.front in (Front.DNS, Front.INTERNAL)
        return is_checked and self.exposure is Exposure.INTERNAL

    @property
    def listening_port(self) -> int:
        """Port of the gateway, and of the front."""
        return self.port or self._usual_port

    @property
    def redirect_port(self) -> int | None:
        """Port that redirects to HTTPS; only a global front on the usual port has one."""
        is_usual = self.front is Front.GLOBAL and self.listening_port == HTTPS_PORT
        return REDIRECT_PORT if is_usual else None

    @property
    def _usual_port(self) -> int:
        return 80 if self.certificate is None else 443

    def endpoint(self, address: str) -> str:
        """Return the URL of a gateway, without the port if it is the scheme's default."""
        scheme = "http" if self.certificate is None else "https"
        port = "" if self.listening_port == self._usual_port else f":{self.port}"
        return f"{scheme}://{self.hostname or address}{port}"
