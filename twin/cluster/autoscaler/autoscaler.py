"""GKE's cluster autoscaler: adds nodes for pending pods, rung by rung, and removes empty nodes.

The pure modules `pods`, `rungs` and `plan` make the decisions; this module connects them to the API
server and the capacity ledger. Rules: rung.*, node.*, quota.*, autoscaler.scan.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence, Set
from dataclasses import replace

from twin.cluster.autoscaler import buffers as capacity_buffers
from twin.cluster.autoscaler import rungs as autoscaler_rungs
from twin.cluster.autoscaler.events import EventRecorder
from twin.cluster.autoscaler.migration import Migrations
from twin.cluster.autoscaler.plan import Scan, Verdict, cooldown_rule, forms, plan
from twin.cluster.autoscaler.pods import Pod, Room
from twin.cluster.autoscaler.queued import QueuedRequests
from twin.cluster.autoscaler.rungs import Class, Offer, Rung
from twin.cluster.autoscaler.shrink import Shrinker
from twin.cluster.autoscaler.state import Cluster, ClusterState
from twin.cluster.base.context import ClusterContext
from twin.cluster.base.fields import part, parts
from twin.cluster.base.pace import rest, wait_unless
from twin.cluster.nodes import node_objects as nodes
from twin.cluster.nodes.provisioning import Group, Provisioner
from twin.host.paths import TwinPaths
from twin.wire.kube import JsonObject, KubeError
from twin.world.capacity import Answer, World
from twin.world.store import list_resources

_LOG = logging.getLogger(__name__)
_IDLE_SECONDS = 0.5
_BUSY_SECONDS = 0.1
_NO_CLASS = ""


class Autoscaler:
    """Node auto-provisioning, cluster autoscaling, preemption and active migration of a cluster."""

    def __init__(self, ctx: ClusterContext) -> None:
        self._ctx = ctx
        self._provisioner = Provisioner(ctx, "autoscaler")
        self._events = EventRecorder(ctx)
        self._state = ClusterState(ctx)
        self._shrinker = Shrinker(ctx, self._provisioner)
        self._migrations = Migrations(ctx, self._provisioner)
        self._queued = QueuedRequests(ctx, self._provisioner)
        self._buffers = capacity_buffers.CapacityBuffers(ctx)
        self._cooling: dict[tuple[str, int], float] = {}
        self._paused: dict[str, float] = {}

    def run(self, stop: threading.Event) -> None:
        """Run until `stop` is set."""
        if not self._state.start(stop):
            return
        recovered = False
        while not stop.is_set():
            begun = time.thread_time()
            try:
                if not recovered:
                    self._provisioner.recover()
                    recovered = True
                self._pause(stop, begun, is_busy=self.scan())
            except KubeError as error:
                _LOG.warning("autoscaler: %s", error)
                stop.wait(1.0)
            except Exception:  # noqa: BLE001 - a controller outlives any one bad object
                _LOG.exception("autoscaler")
                stop.wait(1.0)

    def _pause(self, stop: threading.Event, begun: float, *, is_busy: bool) -> None:
        """Wait for a change and rest, but not past the end of a machine that is withdrawn."""
        self._state.wake.wait(_BUSY_SECONDS if is_busy else _IDLE_SECONDS)
        self._state.wake.clear()
        pause = min(_BUSY_SECONDS, self._ctx.rules.scaled("autoscaler.scan"))
        wait_unless(stop, max(pause, rest(begun)), self._shrinker.is_due)

    def scan(self) -> bool:
        """Do everything that is due; return whether something is under way."""
        self._provisioner.tick(self._gave_up)
        coming = self._provisioner.coming(self._state.node_names())
        cluster = self._state.read(coming)
        by_class: dict[str, list[Pod]] = {}
        for pod in cluster.unschedulable:
            by_class.setdefault(pod.compute_class or _NO_CLASS, []).append(pod)
            self._events.pending(pod)
        seen = {node.name for node in cluster.nodes}
        rooms = [room for group in coming for room in _rooms(group, seen)]
        growing = {
            name
            for name, pods in sorted(by_class.items())
            if self._serve(cluster, [*cluster.young.values(), *rooms], name, pods)
        }
        filling = self._fill(cluster, rooms, growing)
        self._events.conditions(cluster)
        self._queued.scan(cluster)
        removed = self._shrinker.scan(cluster, self._provisioner.groups.values())
        moving = self._migrations.scan(cluster, set(by_class), self._is_cooling)
        return bool(self._provisioner.groups or by_class or filling or removed or moving)

    def _fill(self, cluster: Cluster, rooms: Sequence[Room], growing: Set[str]) -> bool:
        """Keep nodes for the capacity buffers; return whether units have no node.

        Pending pods come first: their class gets nodes for its buffers in a later scan.
        """
        pods = self._buffers.scan(cluster)
        if not pods:
            return False
        left, cluster.held = capacity_buffers.place(cluster, rooms, pods)
        by_class: dict[str, list[Pod]] = {}
        for pod in left:
            by_class.setdefault(pod.compute_class or _NO_CLASS, []).append(pod)
        for name, units in sorted(by_class.items()):
            if name not in growing:
                self._serve(cluster, (), name, units)
        return bool(left)

    def _serve(
        self, cluster: Cluster, rooms: Sequence[Room], name: str, pods: Sequence[Pod]
    ) -> bool:
        """Get nodes for the pods of a class; return whether nodes were requested."""
        now = time.monotonic()
        if now < self._paused.get(name, 0.0):
            return True  # a request has just failed
        klass = cluster.classes.get(name)
        if name and klass is None:
            self._events.unknown_class(name, pods)
            return False
        scan = Scan(
            klass=klass,
            pools=cluster.pools,
            pool_counts=cluster.pool_counts,
            cooling={rung: until for (of, rung), until in self._cooling.items() if of == name},
            now=now,
            zones=self._ctx.spec.zones,
            ask=self._ask,
        )
        verdicts = plan(scan, self._rungs_for(cluster, klass), pods, rooms)
        for verdict in verdicts:
            self._act(name, verdict)
        return any(verdict.kind in {"requested", "failed"} for verdict in verdicts)

    def _rungs_for(self, cluster: Cluster, klass: Class | None) -> Callable[[Pod], Sequence[Rung]]:
        def rungs(pod: Pod) -> Sequence[Rung]:
            if klass is not None:
                return klass.rungs
            return cluster.rungs_without_class(pod)

        return rungs

    def _ask(self, found: Sequence[Offer]) -> tuple[Answer, Offer]:
        """Request the first available offer."""
        first = found[0]
        absent = missing_image(self._ctx.paths, self._ctx.spec.project, first.rung.rule)
        if absent is not None:
            return absent, first
        if first.rung.wait_seconds > 0:
            return self._enqueue(found), first
        answer: Answer | None = None
        for offer in found:
            for shape in forms(offer, self._named(offer), self._provisioner.ledger.world()):
                answer, group = self._provisioner.request(
                    shape, offer.zone, offer.hosts, rung=_index(offer)
                )
                if answer.granted:
                    self._announce(offer, group)
                    return answer, replace(offer, shape=group.shape)
        if answer is None:
            raise ValueError("no offer to ask for")
        return answer, first

    def _named(self, offer: Offer) -> nodes.NodeShape:
        """Return the shape with its node pool; each slice has its own pool."""
        if offer.pool is not None or offer.hosts == 1:
            return offer.shape
        unique = self._provisioner.new_names(offer.shape, 1)[0].rpartition("-")[2]
        return offer.shape.in_pool(f"{offer.shape.pool}-{unique}")

    def _enqueue(self, found: Sequence[Offer]) -> Answer:
        offer = found[0]
        rules, now = self._ctx.rules, time.monotonic()
        flex = offer.rung.provisioning == "flex-start"
        first = now + (rules.scaled("node.create.flex-start") if flex else 0.0)
        until = max(first, now + offer.rung.wait_seconds / rules.speed)
        places = [(self._named(each), each.zone) for each in found]
        group = self._provisioner.enqueue(
            places, offer.hosts, rung=_index(offer), first=first, until=until
        )
        self._announce(offer, group)
        return Answer("granted")

    def _announce(self, offer: Offer, group: Group) -> None:
        self._ctx.events.emit(
            "rung.chosen",
            offer.rung.title,
            f"{group.shape.compute_class or group.shape.pool}: {offer.rung.title} in {group.zone}",
            cluster=self._ctx.dir.name,
            compute_class=group.shape.compute_class,
            rung=offer.rung.index,
            zone=group.zone,
            machine=group.shape.machine.name,
            queued=group.queued_until is not None,
        )

    def _act(self, name: str, verdict: Verdict) -> None:
        if verdict.kind == "requested" and verdict.offer is not None:
            self._events.triggered(verdict.pods, verdict.offer)
        elif verdict.kind == "failed" and verdict.offer is not None and verdict.answer is not None:
            rules = self._ctx.rules
            pause = rules.scaled("rung.stockout.detect")
            self._paused[name] = time.monotonic() + pause
            self._cool(name, verdict.offer.rung, verdict.offer.zone, verdict.answer)
            self._events.failed(verdict.pods, verdict.offer, verdict.answer)
        else:
            self._events.not_triggered(verdict.pods, verdict.message)

    def _gave_up(self, group: Group, answer: Answer) -> None:
        """Start the cooldown of a rung whose capacity did not arrive in time."""
        klass = self._state.classes().get(group.shape.compute_class or _NO_CLASS)
        rungs = klass.rungs if klass else ()
        rung = next((each for each in rungs if each.index == group.rung), None)
        if klass is not None and rung is not None:
            self._cool(klass.name, rung, group.zone, answer)

    def _cool(self, name: str, rung: Rung, zone: str, answer: Answer) -> None:
        rules = self._ctx.rules
        rule = cooldown_rule(answer)
        seconds = rules.scaled(rule)
        self._cooling[name, rung.index] = time.monotonic() + seconds
        facts = {
            "cluster": self._ctx.dir.name,
            "compute_class": name or None,
            "rung": rung.index,
            "zone": zone,
        }
        kind = "rung.quota" if answer.outcome == "quota" else "rung.stockout"
        self._ctx.events.emit(kind, rung.title, answer.message, **facts, code=answer.code)
        self._ctx.events.emit(
            "rung.cooldown",
            rung.title,
            f"{rung.title} is not tried for {rules.seconds(rule):.0f} s",
            **facts,
            seconds=seconds,
        )

    def _is_cooling(self, name: str, rung: Rung) -> bool:
        return time.monotonic() < self._cooling.get((name, rung.index), 0.0)


def _index(offer: Offer) -> int | None:
    return None if offer.shape.compute_class is None else offer.rung.index


def _rooms(group: Group, seen: Set[str]) -> list[Room]:
    missing = [name for name in group.names if name not in seen]
    return [autoscaler_rungs.room_of(group.shape, group.zone) for _ in missing]


_IMAGE = "gcp:compute/image:Image"


def missing_image(paths: TwinPaths, project: str, rule: JsonObject) -> Answer | None:
    """Return the response to a request for nodes whose disk image does not exist, if so.

    Rule: cloud.given.

    Args:
        paths: Paths of the twin.
        project: Project of the cluster, for images whose disk names none.
        rule: Rule of the compute class.
    """
    for disk in parts(part(rule, "storage"), "secondaryBootDisks"):
        path = f"projects/{disk.get('project') or project}/global/images/{disk['diskImageName']}"
        if World.load(paths.capacity_file).gives(path):
            continue
        if not any(each.id == path for each in list_resources(paths, (_IMAGE,))):
            return Answer("not-found", "NOT_FOUND", f"The resource '{path}' was not found")
    return None
