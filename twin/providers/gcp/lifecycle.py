"""Creation, update and deletion: checks first, then an operation that outlives its caller."""

import logging
import time
from dataclasses import replace
from typing import Any

from twin.providers.gcp.bigquery.grants import check_grant
from twin.providers.gcp.checks.suppress import relative_path
from twin.providers.gcp.effects.base import World
from twin.providers.gcp.effects.registry import effect_of
from twin.providers.gcp.effects.secret_store import next_version
from twin.providers.gcp.operations import EngineGoneError, Operation, Operations
from twin.providers.gcp.resources import refusals
from twin.providers.gcp.resources.computed_outputs import created, updated
from twin.providers.gcp.resources.future_reservations import check_future_reservation
from twin.providers.gcp.resources.identity import resource_id
from twin.providers.gcp.resources.members import check_member
from twin.providers.gcp.resources.pools.networks import check_network_quota
from twin.providers.gcp.resources.references import ZONE, Link, links, owned, uses
from twin.providers.gcp.resources.registries import check_credentials
from twin.providers.gcp.schema import Resource, resource
from twin.wire.property_values import CloudError, Json, last_segment
from twin.world import capacity
from twin.world.regions import is_region
from twin.world.store import Record, new_record

_log = logging.getLogger(__name__)
_UPSERTED = (
    "projects/service",
    "projects/serviceIdentity",
    "binaryauthorization/policy",
    "modelarmor/floorsetting",
)


class Lifecycle:
    """The lifecycle of resources in one twin."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.operations = Operations()

    def place(self, known: Resource, inputs: Json, configured: Json) -> Json:
        """Return inputs with project, region, zone and location filled in.

        Raises:
            CloudError: neither the resource nor the provider sets a location.
        """
        placed = dict(inputs)
        if known.kind == "container/nodePool":
            placed.update(_place_of_cluster(str(inputs.get("cluster", ""))))
        if "project" in known.fields and not placed.get("project"):
            if not configured.get("project"):
                raise CloudError(
                    400, "project: required field is not set; set gcp:project", "required"
                )
            placed["project"] = configured["project"]
        for key in ("region", "zone"):
            field = known.fields.get(key)
            if field is not None and field.computed and not placed.get(key):
                value = configured.get(key)
                if value and not known.kind.startswith("compute/global"):
                    placed[key] = value
                elif key in _MUST_HAVE.get(known.kind, ()):
                    raise CloudError(
                        400, f"{key}: required field is not set; set it or gcp:{key}", "required"
                    )
        if known.kind in ("container/cluster", "container/nodePool") and not placed.get("location"):
            place = configured.get("zone") or configured.get("region")
            if not place:
                raise CloudError(
                    400, "location: required field is not set; set it or gcp:region", "required"
                )
            placed["location"] = place
        return placed

    def create(
        self, known: Resource, urn: str, inputs: Json, configured: Json
    ) -> Operation | Record:
        """Start the creation of a resource.

        Returns:
            The running operation, whose result is `{"id", "outputs"}`; or the record, if the twin
            already created the resource for an engine that died before it received the result.

        Raises:
            CloudError: Google would refuse.
        """
        placed = self.place(known, inputs, configured)
        project = str(placed.get("project") or configured.get("project") or "")
        identifier = resource_id(known, placed, project, urn)
        if known.kind == "secretmanager/secretVersion":
            identifier = next_version(self.world.store, identifier.rpartition("/versions/")[0], urn)
        existing = self._settled(self.world.store.get(known.token, identifier))
        if existing is not None:
            return self._existing(known, existing, urn, inputs, configured)
        found = self._links(known, placed, project)
        store = self.world.store
        refusals.check_create(known, placed, project, store, found)
        # what IAM has in effect by now
        since = time.time() - self.world.rules.scaled("cloud.iam.propagation")
        check_member(known, placed, project, store, self._capacity, since)
        check_grant(known, placed, project, self._capacity)
        check_network_quota(known, placed, project, store, self._capacity)
        check_credentials(known, placed, project, store, since)
        check_future_reservation(known, placed, self._capacity)
        outputs = created(known, placed, identifier, urn, configured)
        name = _name(known, placed, identifier)
        record = new_record(known.token, identifier, name, project, urn, inputs, outputs)
        raced = self.world.store.add(record, uses(found))
        if raced is not None:
            return self._existing(known, raced, urn, inputs, configured)
        return self._start_create(known, record)

    def _links(self, known: Resource, inputs: Json, project: str) -> list[Link]:
        """Return the references of a resource; what the world lists needs no resource."""
        found = list(links(known, inputs, project, self.world.store))
        if not any(each.is_checked and each.target is None for each in found):
            return found
        given = self._capacity()
        return [
            replace(each, is_checked=each.is_checked and not _is_given(each, project, given))
            for each in found
        ]

    def _capacity(self) -> capacity.World:
        return capacity.World.load(self.world.paths.capacity_file)

    def _settled(self, record: Record | None) -> Record | None:
        """Return a resource, after waiting for a running deletion."""
        if record is None or record.status != "deleting":
            return record
        return self.settle(record, None)

    def _existing(
        self, known: Resource, record: Record, urn: str, inputs: Json, configured: Json
    ) -> Operation | Record:
        is_upsert = known.kind in _UPSERTED or known.kind.lower().endswith("iammember")
        if not is_upsert and (record.urn != urn or record.acknowledged):
            raise refusals.already_exists(record)
        running = self.operations.running(record.type, record.id)
        if running is not None:
            return running
        if record.status == "creating":
            return self._start_create(known, record)
        if is_upsert or record.inputs != inputs:
            return self.update(known, record, inputs, configured)
        return record

    def _start_create(self, known: Resource, record: Record) -> Operation:
        world, effect = self.world, effect_of(known.kind)

        def work() -> Json:
            start = time.monotonic()
            try:
                extra = effect.create(world, record)
            except Exception:
                self._undo(known, record)
                raise
            self._wait(start, known, record.outputs, "create")
            outputs = {**record.outputs, **extra}
            world.store.set(record.type, record.id, status="ready", outputs=outputs)
            self._tell("cloud.create", known, record, time.monotonic() - start)
            return {"id": record.id, "outputs": outputs}

        return self.operations.start(record.type, record.id, work)

    def _undo(self, known: Resource, record: Record) -> None:
        try:
            effect_of(known.kind).delete(self.world, record)
        except Exception:  # noqa: BLE001 - the first error is the one to report
            _log.exception("%s could not be taken back", record.id)
        self.world.store.remove(record.type, record.id)

    def update(self, known: Resource, record: Record, inputs: Json, configured: Json) -> Operation:
        """Start an update of a resource; the result is `{"id", "outputs"}`.

        Raises:
            CloudError: Google would refuse.
        """
        world = self.world
        placed = {**self._kept_place(known, record), **inputs}
        found = self._links(known, placed, record.project)
        refusals.check_content(known, placed, record.project, world.store, found)
        outputs = updated(known, placed, record.outputs, configured)

        def work() -> Json:
            start = time.monotonic()
            world.store.set(record.type, record.id, status="updating")
            try:
                extra = effect_of(known.kind).update(world, record, outputs)
            except Exception:
                world.store.set(record.type, record.id, status="ready")
                raise
            self._wait(start, known, outputs, "update")
            done = {**outputs, **extra}
            world.store.set(
                record.type,
                record.id,
                status="ready",
                inputs=inputs,
                outputs=done,
                uses=uses(found),
            )
            return {"id": record.id, "outputs": done}

        return self.operations.start(record.type, record.id, work)

    @staticmethod
    def _kept_place(known: Resource, record: Record) -> Json:
        keys = ("project", "region", "zone", "location")
        return {
            key: record.outputs[key]
            for key in keys
            if key in known.fields and record.outputs.get(key)
        }

    def delete(self, known: Resource, record: Record) -> Operation | None:
        """Start the deletion of a resource; return None if its deletion policy abandons it.

        Raises:
            CloudError: Google would refuse.
        """
        world = self.world
        if record.outputs.get("deletionPolicy") == "ABANDON":
            return None
        running = self.operations.running(record.type, record.id)
        if running is not None and record.status == "deleting":
            return running
        refusals.check_delete(known, record, world.store)
        effect_of(known.kind).check_delete(world, record)
        world.store.set(record.type, record.id, status="deleting")
        return self._start_delete(known, record)

    def _start_delete(self, known: Resource, record: Record) -> Operation:
        world = self.world

        def work() -> Json:
            start = time.monotonic()
            try:
                effect_of(known.kind).delete(world, record)
            except Exception:
                world.store.set(record.type, record.id, status="ready")
                raise
            self._wait(start, known, record.outputs, "delete")
            for user in world.store.users(record.type, record.id):
                if owned(user.type, record.type):
                    world.store.remove(user.type, user.id)
            world.store.remove(record.type, record.id)
            self._tell("cloud.delete", known, record, time.monotonic() - start)
            return {}

        return self.operations.start(record.type, record.id, work)

    def resume(self) -> list[str]:
        """Resume operations that a crash of the daemon interrupted; return the IDs."""
        resumed: list[str] = []
        for record in self.world.store.all():
            known = resource(record.type)
            if known is None or record.status == "ready":
                continue
            resumed.append(record.id)
            if record.status == "creating":
                self._start_create(known, record)
            elif record.status == "deleting":
                self._start_delete(known, record)
            else:  # the engine never heard of the update, so it will ask again
                self.world.store.set(record.type, record.id, status="ready")
        return resumed

    def settle(self, record: Record, context: Any) -> Record | None:
        """Wait for a running operation on a resource, and return the resource."""
        running = self.operations.running(record.type, record.id)
        if running is not None:
            try:
                running.wait(context)
            except EngineGoneError:
                raise
            except Exception as error:  # noqa: BLE001 - told to the call that asked for the work
                _log.info("%s: %s", record.id, error)
        return self.world.store.get(record.type, record.id)

    def _wait(self, start: float, known: Resource, values: Json, verb: str) -> None:
        """Wait for the time that Google takes, counted from `start`."""
        rules = self.world.rules
        place = "regional" if is_region(str(values.get("location", ""))) else "zonal"
        for rule in (f"cloud.{verb}.{known.kind}.{place}", f"cloud.{verb}.{known.kind}"):
            try:
                seconds = rules.scaled(rule)
                break
            except KeyError:
                continue
        else:
            seconds = rules.scaled(f"cloud.{verb}")
        time.sleep(max(0.0, start + seconds - time.monotonic()))

    def _tell(self, kind: str, known: Resource, record: Record, seconds: float) -> None:
        noun = known.token.rpartition(":")[2]
        verb = "created" if kind == "cloud.create" else "deleted"
        message = f"{noun} {record.name} {verb}"
        self.world.events.emit(
            kind, record.name, message, type=record.type, id=record.id, seconds=round(seconds, 3)
        )


_MUST_HAVE: dict[str, tuple[str, ...]] = {
    "compute/address": ("region",),
    "compute/forwardingRule": ("region",),
    "compute/router": ("region",),
    "compute/routerNat": ("region",),
    "compute/subnetwork": ("region",),
    "compute/resourcePolicy": ("region",),
    "compute/networkAttachment": ("region",),
    "compute/serviceAttachment": ("region",),
    "compute/disk": ("zone",),
    "compute/networkEndpointGroup": ("zone",),
}


def _place_of_cluster(cluster: str) -> Json:
    parts = cluster.split("/")
    if len(parts) != 6 or parts[0] != "projects":
        return {}
    return {"project": parts[1], "location": parts[3]}


def _name(known: Resource, placed: Json, identifier: str) -> str:
    keys = ("name", "accountId", "secretId", "repositoryId", "membershipId", "instanceId", "roleId")
    if known.kind == "serviceaccount/account":
        return last_segment(identifier)
    for key in keys:
        value = placed.get(key)
        if isinstance(value, str) and value:
            return value if known.kind == "storage/bucketObject" else last_segment(value)
    return last_segment(identifier)


def _is_given(link: Link, project: str, world: capacity.World) -> bool:
    """Return whether the world lists the target of a reference (rule cloud.given)."""
    if ZONE in link.reference.targets:
        return link.value in world.zones
    path = relative_path(link.value)
    collection = link.reference.targets[0].rpartition(":")[2].lower() + "s"
    if "/" not in path:
        path = f"global/{collection}/{last_segment(path)}"
    return world.gives(path if path.startswith("projects/") else f"projects/{project}/{path}")
