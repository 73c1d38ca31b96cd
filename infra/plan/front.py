"""Endpoints of a platform, and the regions that its front routes to, in all and for each model.

A front cannot read the model from a request's body, so the plain URL must reach every model: only
regions that serve all models answer there. A model that some regions do not serve also has a path
of its own, which every region that serves it answers.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gke_inference.catalogue.load_balancing import CATALOGUE_PATH
from infra.stack import (
    ClientCertificates,
    Front,
    FrontRouter,
    Gateway,
    Guardrail,
    People,
    Platform,
    Team,
)


@dataclass(frozen=True)
class Zone:
    """A zone of Cloud DNS."""

    project: str
    name: str


@dataclass(frozen=True)
class RoutedModel:
    """Where a model answers."""

    regions: tuple[str, ...]
    """Regions of the front that serve it."""
    fallback: str | None
    """Backend that answers while none of them does."""


@dataclass(frozen=True)
class RouterPlan:
    """Body-based routing at a global front."""

    settings: FrontRouter
    guardrail: Guardrail | None
    """Guardrail that checks prompts before they reach a region."""
    models: Mapping[str, RoutedModel]
    """Models, adapters and further models that some region of the front does not serve, or that
    have a fallback, by the name that clients request."""


@dataclass(frozen=True)
class FrontPlan:
    """The endpoints of a stack: the gateways of regions, and the front over them."""

    gateway: Gateway
    """Settings of every gateway, and of the front."""
    regions: tuple[str, ...]
    """Regions that have a gateway, in stack order."""
    routed: tuple[str, ...]
    """Regions of the front: all with a gateway except drained ones."""
    answering: tuple[str, ...]
    """Regions that serve every model. Without a router, the plain URL leads to them."""
    paths: Mapping[str, tuple[str, ...]]
    """Regions of each model that some region of the front does not serve, by name."""
    router: RouterPlan | None
    """Body-based routing of the plain URL; None if there is none."""
    config_region: str | None
    """Region of the fleet's config cluster; None if no region has models."""
    record_zone: Zone | None
    """Zone of the hostname's records; None if the stack creates none."""
    certificate_zone: Zone | None
    """Zone of the record that authorizes the certificate; None if it is not issued."""
    team_hostnames: Mapping[str, str]
    """Hostnames of teams with one of their own."""
    certificates: ClientCertificates | None
    """Client certificates that the front validates."""
    people: People | None
    """People who sign in at the front."""
    catalogue_path: str
    """Path that lists the models, a team's own where it shares a hostname."""
    picker_replicas: int
    """Pickers per model."""
    router_replicas: int
    """Replicas of the body router, and of the model catalog."""
    timeout_seconds: int | None
    """Longest timeout of a model; None without models."""
    has_load_balancer: bool
    """Whether the stack has its own load balancer over its regions."""
    has_body_router: bool
    """Whether the stack has a Gateway whose routes need the model of a body in a header."""

    @property
    def hostnames(self) -> list[str]:
        """Hostnames of the gateway and of teams."""
        own = self.gateway.hostname
        return [*([] if own is None else [own]), *self.team_hostnames.values()]


def resolve_front(platform: Platform) -> FrontPlan:
    """Return the endpoints of a stack."""
    gateway, clients = platform.gateway, platform.gated_clients()
    regions = platform.regions_with_gateway()
    routed = tuple(name for name in regions if name not in gateway.drain)
    served = {name: set(platform.models_in(name)) for name in routed}
    has_gateways = platform.has_clusters()

    def serving(models: Iterable[str]) -> tuple[str, ...]:
        wanted = set(models)
        return tuple(name for name in routed if wanted <= served[name])

    of_models = {name: serving((name,)) for name in platform.models}
    return FrontPlan(
        router=_resolve_router(platform, of_models, routed),
        gateway=gateway,
        regions=regions,
        routed=routed,
        answering=serving(platform.models),
        paths={name: found for name, found in of_models.items() if found and found != routed},
        config_region=_config_region(gateway, regions),
        record_zone=_record_zone(gateway, platform.project),
        certificate_zone=_certificate_zone(gateway, platform.project),
        team_hostnames={
            name: team.hostname
            for name, team in platform.teams.items()
            if team.hostname is not None
        },
        certificates=None if clients is None else clients.certificates,
        people=None if clients is None else clients.people,
        catalogue_path=_catalogue_path(platform.team, platform.teams),
        picker_replicas=gateway.picker_replicas or (2 if platform.protection else 1),
        router_replicas=gateway.router_replicas or platform.usual_replicas(),
        timeout_seconds=max(
            (model.timeout_seconds for model in platform.models.values()), default=None
        ),
        has_load_balancer=has_gateways and gateway.front is Front.GLOBAL,
        has_body_router=has_gateways and not gateway.has_fleet_gateway,
    )


def _resolve_router(
    platform: Platform, of_models: Mapping[str, tuple[str, ...]], routed: tuple[str, ...]
) -> RouterPlan | None:
    settings = platform.gateway.front_router
    if settings is None:
        return None
    return RouterPlan(
        settings=settings,
        guardrail=platform.guardrails.get(settings.guardrail or ""),
        models={
            name: RoutedModel(of_models[served], settings.fallbacks.get(served))
            for served, model in platform.models.items()
            for name in (served, *model.other_names(served))
            if of_models[served] != routed or served in settings.fallbacks
        },
    )


def _config_region(gateway: Gateway, regions: Iterable[str]) -> str | None:
    if gateway.fleet is not None and gateway.fleet.config_region is not None:
        return gateway.fleet.config_region
    return min(regions, default=None)  # the engine does not keep their order


def _record_zone(gateway: Gateway, project: str) -> Zone | None:
    dns = gateway.dns
    return None if dns is None else Zone(dns.project or project, dns.zone)


def _certificate_zone(gateway: Gateway, project: str) -> Zone | None:
    dns, of_records = gateway.dns, _record_zone(gateway, project)
    if dns is None or of_records is None or not gateway.issue_certificate:
        return None
    if dns.certificate_zone is None:
        return of_records
    return Zone(dns.certificate_project or of_records.project, dns.certificate_zone)


def _catalogue_path(owner: str | None, teams: Mapping[str, Team]) -> str:
    team = teams.get(owner or "")
    if team is None or team.hostname is not None:
        return CATALOGUE_PATH
    return f"/{owner}{CATALOGUE_PATH}"
