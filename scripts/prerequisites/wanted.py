"""Resources that a stack uses but does not create, and the number of machines of its rungs."""

import re
from collections.abc import Iterator
from typing import Final

from gke_inference.catalogue.rungs import Rung
from infra.plan import Plan, RegionPlan, ServedModel

_ACCOUNT: Final = re.compile(r"serviceAccount:([^@]+@[^.@]+\.iam\.gserviceaccount\.com)")


def snapshots(plan: Plan) -> dict[str, tuple[str, int]]:
    """Return the snapshots of models' disks, as `projects/P/global/snapshots/NAME`.

    Each has the first model that uses it, and the size of its disk in GiB.
    """
    found: dict[str, tuple[str, int]] = {}
    for name, model in plan.platform.models.items():
        if model.disk is None:
            continue
        path = model.disk.snapshot.partition("/compute/v1/")[2] or model.disk.snapshot
        if "/" not in path:
            path = f"global/snapshots/{path}"
        if not path.startswith("projects/"):
            path = f"projects/{plan.platform.project}/{path}"
        found.setdefault(path, (name, model.disk.size_gib))
    return found


def disk_image(plan: Plan) -> str | None:
    """Return the disk image of nodes, as `projects/P/global/images/NAME`; None if `up` makes it."""
    cache = plan.storage.image_cache
    if cache is None or cache.archive is not None:
        return None
    return f"projects/{cache.project}/global/images/{cache.name}"


def secret_versions(plan: Plan) -> dict[str, str]:
    """Return the passwords of registries, as `projects/P/secrets/S/versions/V`.

    Each has the first registry that uses it. A serving stack creates no repositories.
    """
    found: dict[str, str] = {}
    images = plan.platform.images if plan.has_clusters else None
    for registry, login in () if images is None else images.upstream_credentials.items():
        found.setdefault(login.secret, registry)
    return found


def engine_secrets(plan: Plan) -> dict[str, str]:
    """Return the secrets of engines, as `projects/P/secrets/S/versions/latest`.

    Each has the field that names it first.
    """
    found: dict[str, str] = {}
    for name, model in plan.platform.models.items():
        for variable, secret in model.settings.engine_secrets.items():
            version = f"projects/{plan.platform.project}/secrets/{secret}/versions/latest"
            found.setdefault(version, f"models.{name}.settings.engine_secrets.{variable}")
    return found


def service_accounts(plan: Plan) -> dict[str, str]:
    """Return the email addresses of service accounts, each with the field that names it first."""
    personal = plan.platform.personal_images
    found: dict[str, str] = {}
    for at, member in enumerate(personal.callers if personal is not None else ()):
        account = _ACCOUNT.fullmatch(member)
        if account is not None:
            found.setdefault(account[1], f"personal_images.callers[{at}]")
    return found


def tables(plan: Plan) -> dict[str, str]:
    """Return the tables for answers, `PROJECT.DATASET.TABLE`, each with the first field for it."""
    found: dict[str, str] = {}
    for name, stream in plan.platform.streams.items():
        if stream.results.table is not None:
            found.setdefault(stream.results.table, f"streams.{name}.results.table")
    return found


def reserved(plan: Plan) -> Iterator[tuple[RegionPlan, Rung, str]]:
    """Yield each rung on a reservation, with its region and each of its zones, once for each shape.

    A rung without a project of its own uses a reservation of the stack's project.
    """
    for region in plan.regions.values():
        asked: set[tuple[str, str, str]] = set()
        for capacity in region.used_capacity:
            for at, rung in capacity.rungs.items():
                for zone in capacity.zones[at] if rung.reservation is not None else ():
                    owner = rung.reservation_project or plan.platform.project
                    key = (owner, zone, f"{rung.reservation} {rung.machine_type}")
                    if key not in asked:
                        asked.add(key)
                        yield region, rung, zone


def requested(plan: Plan) -> dict[tuple[str, str | None], tuple[Rung, str]]:
    """Return the rungs whose reservation the stack requests, with its zone, by zone and name."""
    return {
        (rung.reservation_zones[0], rung.reservation): (rung, rung.reservation_zones[0])
        for region in plan.regions.values()
        for capacity in region.used_capacity
        for rung in capacity.reserved_rungs.values()
    }


def replicas_on(region: RegionPlan, rung: Rung) -> tuple[int, int]:
    """Return the initial and the maximum number of machines of a rung.

    A model starts on its first rung of a kind; lower rungs take what higher rungs cannot provide.
    """
    least = most = 0
    for served in region.served:
        for role in served.roles:
            same = [at for at, each in role.rungs.items() if _is_same(each, rung)]
            if not same:
                continue
            most += role.replicas.max * rung.hosts
            if min(same) == _first(role, rung.kind):
                least += role.replicas.min * rung.hosts
    return least, most


def _first(served: ServedModel, kind: str) -> int | None:
    of_kind = served.capacity.of_kind(kind) if len(served.capacity.classes) > 1 else served.rungs
    return min(of_kind, default=None)


def _is_same(one: Rung, other: Rung) -> bool:
    def key(rung: Rung) -> tuple[str, str, str | None, str | None]:
        return rung.machine_type, rung.provisioning, rung.reservation, rung.topology

    return key(one) == key(other)
