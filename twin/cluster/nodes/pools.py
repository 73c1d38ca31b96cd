"""Node pool controller: keeps nodes in sync with the pool files that the gcp provider writes."""

import json
import logging
import threading
import time
from contextlib import suppress
from pathlib import Path

from twin.cluster.base.context import ClusterContext
from twin.cluster.base.fields import part, parts
from twin.cluster.base.informer import Informer
from twin.cluster.nodes import pool_spec
from twin.cluster.nodes.node_objects import POOL_LABEL
from twin.cluster.nodes.policies import resource_policy
from twin.cluster.nodes.pool_spec import PoolSpec
from twin.cluster.nodes.provisioning import Provisioner
from twin.wire.kube import JsonObject, KubeError
from twin.world.machines import offered_in

_LOG = logging.getLogger(__name__)
_SCAN_SECONDS = 0.1
_RELIST_SECONDS = 2.0


def is_ready(node: JsonObject) -> bool:
    """Return whether a node is Ready."""
    conditions = parts(part(node, "status"), "conditions")
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


def _zone_of(node: JsonObject) -> str:
    return node["metadata"]["labels"]["topology.kubernetes.io/zone"]


def _digest_of(file: Path) -> str | None:
    """Return the digest in a pool's file, even if the rest of the file is invalid."""
    try:
        return json.loads(file.read_text()).get("digest")
    except (FileNotFoundError, ValueError):
        return None


class PoolController:
    """Creates the nodes of each pool, keeps its minimum, and removes them with the pool."""

    def __init__(self, ctx: ClusterContext) -> None:
        self._ctx = ctx
        self._folder = ctx.dir / "pools"
        self._changed = threading.Event()
        self._nodes = Informer(ctx.watches, "/api/v1/nodes", self._changed)
        self._provisioner = Provisioner(ctx, "pools")
        self._errors: dict[str, str] = {}
        self._digests: dict[str, str | None] = {}
        self._retry_at: dict[str, float] = {}
        self._written: dict[str, str] = {}
        self._filled: set[str] = set()

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set."""
        self._folder.mkdir(exist_ok=True)
        self._nodes.start(stop)
        recovered = False
        seen: tuple[tuple[str, float], ...] = ()
        listed = 0.0
        while not stop.wait(_SCAN_SECONDS):
            try:
                if not recovered:
                    self._provisioner.recover()
                    recovered = True
                self._provisioner.tick()
                now = time.monotonic()
                files = self._snapshot()
                busy = bool(self._provisioner.groups) or self._unsettled()
                is_due = self._changed.is_set() and now - listed > _RELIST_SECONDS
                if files != seen or busy or is_due:
                    self._changed.clear()
                    self._reconcile()
                    seen, listed = files, now
            except KubeError as error:
                _LOG.warning("pools: %s", error)
                self._changed.set()  # what changed has not been handled
                stop.wait(1.0)
            except Exception:  # noqa: BLE001 - a controller outlives any one bad object
                _LOG.exception("pools")
                self._changed.set()
                stop.wait(1.0)

    def _snapshot(self) -> tuple[tuple[str, float], ...]:
        found: list[tuple[str, float]] = []
        for file in self._pool_files():
            with suppress(FileNotFoundError):  # the pool is being deleted
                found.append((file.name, file.stat().st_mtime))
        return tuple(sorted(found))

    def _pool_files(self) -> list[Path]:
        return [
            file for file in self._folder.glob("*.json") if not file.name.endswith(".status.json")
        ]

    def _unsettled(self) -> bool:
        statuses = (json.loads(text) for text in self._written.values())
        return any(item["ready"] < item["wanted"] for item in statuses)

    def _reconcile(self) -> None:
        by_pool: dict[str, list[JsonObject]] = {}
        for node in self._ctx.kube.list("/api/v1/nodes", label_selector=POOL_LABEL):
            by_pool.setdefault(node["metadata"]["labels"][POOL_LABEL], []).append(node)
        names: set[str] = set()
        for file in self._pool_files():
            name = file.name.removesuffix(".json")
            names.add(name)
            try:
                spec = pool_spec.load(file, lambda policy: resource_policy(self._ctx, policy))
            except FileNotFoundError:
                continue
            except (ValueError, KeyError) as error:
                text = f"node pool {name}: {error}"
                self._write_status(name, 0, 1, text, _digest_of(file))
                continue
            self._reconcile_pool(spec, by_pool.get(name, []))
        for status in self._folder.glob("*.status.json"):
            name = status.name.removesuffix(".status.json")
            if name not in names:
                self._remove_pool(name, by_pool.get(name, []), status)

    def _reconcile_pool(self, spec: PoolSpec, existing: list[JsonObject]) -> None:
        if self._digests.get(spec.name) != spec.digest:  # an earlier version of the pool failed
            self._digests[spec.name] = spec.digest
            self._errors.pop(spec.name, None)
            for zone in spec.zones:
                self._retry_at.pop(f"{spec.name}/{zone}", None)
        counts: dict[str, int] = dict.fromkeys(spec.zones, 0)
        for node in existing:
            zone = _zone_of(node)
            counts[zone] = counts.get(zone, 0) + 1
        coming = [g for g in self._provisioner.groups.values() if g.shape.pool == spec.name]
        for group in coming:
            counts[group.zone] = counts.get(group.zone, 0) + len(group.names)
        filled = spec.name in self._filled or self._was_filled(spec.name)
        target = spec.minimum() if filled else spec.at_creation()
        for zone, wanted in target.items():
            while counts[zone] < wanted and self._grow(spec, zone):
                counts[zone] += spec.hosts
            if not spec.autoscaled and counts[zone] > wanted:
                self._shrink(existing, zone, counts[zone] - wanted)
        for zone in counts.keys() - target.keys():
            self._shrink(existing, zone, counts[zone])  # the pool is no longer in the zone
        ready = sum(is_ready(node) for node in existing if _zone_of(node) in target)
        wanted = sum(target.values())
        if ready >= wanted:
            self._filled.add(spec.name)
            self._errors.pop(spec.name, None)
        self._write_status(spec.name, ready, wanted, self._errors.get(spec.name), spec.digest)

    def _was_filled(self, name: str) -> bool:
        file = self._folder / f"{name}.status.json"
        if not file.exists():
            return False
        filled = bool(json.loads(file.read_text()).get("filled"))
        if filled:
            self._filled.add(name)
        return filled

    def _grow(self, spec: PoolSpec, zone: str) -> bool:
        now = time.monotonic()
        key = f"{spec.name}/{zone}"
        if now < self._retry_at.get(key, 0.0):
            return False
        if not offered_in(spec.shape.machine, zone, spec.shape.provisioning):
            self._errors[spec.name] = (
                f"Machine type with name '{spec.shape.machine.name}' does not exist in zone "
                f"'{zone}'."
            )
            return False
        answer, _ = self._provisioner.request(spec.shape, zone, spec.hosts)
        if answer.granted:
            self._errors.pop(spec.name, None)
            return True
        kind = {"quota": "GCE_QUOTA_EXCEEDED", "stockout": "GCE_STOCKOUT"}
        self._errors[spec.name] = f"{kind.get(answer.outcome, answer.code)}: {answer.message}"
        self._retry_at[key] = now + self._ctx.rules.scaled("rung.cooldown")
        self._ctx.events.emit(
            "rung.quota" if answer.outcome == "quota" else "rung.stockout",
            spec.name,
            answer.message,
            cluster=self._ctx.dir.name,
            zone=zone,
            machine=spec.shape.machine.name,
            provisioning=spec.shape.provisioning,
        )
        return False

    def _shrink(self, existing: list[JsonObject], zone: str, count: int) -> None:
        in_zone = [node for node in existing if _zone_of(node) == zone]
        for node in in_zone[-count:]:
            self._provisioner.remove(node, "the pool got smaller")

    def _remove_pool(self, name: str, existing: list[JsonObject], status: Path) -> None:
        for group in [g for g in self._provisioner.groups.values() if g.shape.pool == name]:
            self._provisioner.cancel(group)
        for node in existing:
            self._provisioner.remove(node, f"node pool {name} is deleted")
        self._filled.discard(name)
        for known in (self._errors, self._digests, self._written):
            known.pop(name, None)
        status.unlink(missing_ok=True)

    def _write_status(
        self, name: str, ready: int, wanted: int, error: str | None, digest: str | None
    ) -> None:
        status: JsonObject = {"ready": ready, "wanted": wanted, "error": error, "digest": digest}
        content = json.dumps({**status, "filled": name in self._filled})
        if self._written.get(name) == content:
            return
        file = self._folder / f"{name}.status.json"
        partial = self._folder / f".{name}.partial"
        partial.write_text(content)
        partial.replace(file)
        self._written[name] = content
