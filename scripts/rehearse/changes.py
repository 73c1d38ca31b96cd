"""Rollouts, canaries and upgrades of a rehearsal, stated in a YAML file."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import Field, StringConstraints

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import Document, one_of
from gke_inference.gateway.settings import RequestPercent
from gke_inference.settings import Settings
from infra.plan import Plan
from infra.plan.names import version_name
from scripts.rehearse.files import settings_of_file
from scripts.terminal.console import CommandError
from simulator.engine.settings import Deployment
from simulator.rehearsal.changes import Canary, Change, Rollout, Upgrade
from simulator.rehearsal.description import Model, Platform

_HOUR, _DAY = 3600.0, 24 * 3600.0
Time = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,3}:[0-5][0-9]$")]


class RolloutEvent(Settings):
    """A new revision of a model's replicas."""

    model: str
    """Model of the stack."""
    version: str | None = None
    """A canary of the model, whose replicas alone are replaced."""
    regions: tuple[str, ...] = ()
    """Regions of the rollout; default: all."""
    step_factor: float = Field(default=1.0, ge=0.1, le=10)
    """Duration of the new revision's steps, as a multiple of those of the stack's engine."""
    starts: bool = True
    """Whether the new revision becomes ready; false for an image that crashes."""


class CanaryEvent(Settings):
    """A new share of a canary."""

    model: str
    """Model of the stack."""
    version: str
    """Canary of the model."""
    percent: RequestPercent
    """Share of the model's requests."""


class UpgradeEvent(Settings):
    """An upgrade of the nodes of regions."""

    regions: tuple[str, ...] = ()
    """Regions; default: all."""


class Event(Settings):
    """One event."""

    at: Time
    """Time after the start of the traffic, as hours and minutes."""
    rollout: RolloutEvent | None = None
    canary: CanaryEvent | None = None
    upgrade: UpgradeEvent | None = None


class Events(Settings):
    """The events of a rehearsal."""

    events: tuple[Event, ...] = Field(min_length=1, max_length=1000)


_DOCUMENT = Document(Events.model_json_schema, "is not a field of events")


def with_changes(platform: Platform, plan: Plan, file: Path) -> Platform:
    """Return a platform that changes as a file states.

    Raises:
        CommandError: The file cannot be read, or breaks a rule.
    """
    try:
        found = settings_of_file(file, Events, _DOCUMENT)
        engines = list(platform.engines)
        changes: list[Change] = []
        for number, event in enumerate(found.events):
            path = f"{file}: events[{number}]"
            changes += _changes(platform, plan, event, path, engines)
    except InputError as error:
        raise CommandError(f"--events: {error}") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CommandError(f"--events: must be readable, got {file}: {reason}") from None
    return replace(platform, engines=tuple(engines), changes=tuple(changes))


def _changes(
    platform: Platform, plan: Plan, event: Event, path: str, engines: list[Deployment]
) -> Iterator[Change]:
    given = [name for name in ("rollout", "canary", "upgrade") if getattr(event, name) is not None]
    if len(given) != 1:
        rule = "must have exactly one of rollout, canary, upgrade"
        raise InputError(path, rule, ", ".join(given) or "none")
    at = _seconds(event.at)
    if event.rollout is not None:
        yield _rollout(platform, event.rollout, at, path, engines)
    elif event.canary is not None:
        yield _canary(platform, event.canary, at, path)
    elif event.upgrade is not None:
        for name in _regions(platform, event.upgrade.regions, f"{path}.upgrade"):
            yield _upgrade(plan, name, at)


def _rollout(
    platform: Platform, event: RolloutEvent, at: float, path: str, engines: list[Deployment]
) -> Rollout:
    path = f"{path}.rollout"
    model = _model(platform, event.model, path)
    pool = model.name if event.version is None else _version(model, event.version, path)
    regions = _regions(platform, event.regions, path)
    chosen = [each for each in platform.workloads if each.pool == pool and each.region in regions]
    if not chosen:
        served = sorted({each.region for each in platform.workloads if each.pool == pool})
        raise InputError(f"{path}.regions", f"must serve the model: {', '.join(served)}", regions)
    # a revision with the steps of the stack's engine ends those of an earlier one
    kinds = {one.engine: one.engine for each in chosen for one in each.hardware.values()}
    if event.step_factor != 1:
        for kind in kinds:
            made = engines[kind]
            kinds[kind] = len(engines)
            engines.append(replace(made, step_factor=made.step_factor * event.step_factor))
    return Rollout(
        at,
        f"rollout of {pool}" + ("" if event.starts else ", which does not start"),
        frozenset((each.name, each.region) for each in chosen),
        kinds,
        not event.starts,
    )


def _canary(platform: Platform, event: CanaryEvent, at: float, path: str) -> Canary:
    path = f"{path}.canary"
    model = _model(platform, event.model, path)
    version = _version(model, event.version, path)
    kept = {name: share for name, share in model.versions if name not in (model.name, version)}
    most = 100 - round(100 * sum(kept.values()))
    if event.percent > most:
        rule = f"must leave the shares of the other canaries, so at most {most}"
        raise InputError(f"{path}.percent", rule, event.percent)
    share = event.percent / 100
    own = (model.name, 1 - share - sum(kept.values()))
    versions = (own, *kept.items(), (version, share))
    return Canary(at, f"canary {version} gets {event.percent} %", model.name, versions)


def _upgrade(plan: Plan, region: str, at: float) -> Upgrade:
    """Return an upgrade: in the next window, or at once where one holds GKE's own upgrades."""
    cluster = plan.regions[region].cluster
    if cluster.holds_upgrades:
        return Upgrade(at, "upgrade of the nodes by hand", region, float("inf"))
    window = cluster.maintenance
    begins, length = window.start_hour * _HOUR, window.hours * _HOUR
    since = (at - begins) % _DAY
    if since < length:
        starts, ends = at, at - since + length
    else:
        starts = at - since + _DAY
        ends = starts + length
    return Upgrade(starts, "upgrade of the nodes in the maintenance window", region, ends)


def _seconds(text: str) -> float:
    hours, _, minutes = text.partition(":")
    return 3600.0 * int(hours) + 60.0 * int(minutes)


def _model(platform: Platform, name: str, path: str) -> Model:
    models = {each.name: each for each in platform.models}
    if name not in models:
        raise one_of(f"{path}.model", name, models)
    return models[name]


def _version(model: Model, name: str, path: str) -> str:
    canaries = [each for each, _ in model.versions if each != model.name]
    if (pool := version_name(model.name, name)) in canaries:  # as the stack names it
        return pool
    if name not in canaries:
        if canaries:
            raise one_of(f"{path}.version", name, canaries)
        raise InputError(
            f"{path}.version", f"must be a canary of {model.name}, which has none", name
        )
    return name


def _regions(platform: Platform, names: Sequence[str], path: str) -> list[str]:
    known = [region.name for region in platform.regions]
    for name in names:
        if name not in known:
            raise one_of(f"{path}.regions", name, known)
    return list(names) or known
