"""Nodes and pods of one region in virtual time, by the rules of the twin's autoscaler.

The decisions are the twin's functions: `plan` (rungs), `decide` and `to_take_away` (capacity),
`better` (moves to a better rung), `removal_delay` and `notice_seconds`. This module does what the
API server, the scheduler and the controllers do between them.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from simulator.rehearsal.changes import Surge
from simulator.rehearsal.description import Region, Workload
from simulator.rehearsal.events import Log
from twin.cluster.autoscaler.migration import better
from twin.cluster.autoscaler.plan import Scan, cooldown_rule, forms, pack, plan
from twin.cluster.autoscaler.pods import Pod, Room, refusal
from twin.cluster.autoscaler.rungs import Class, Offer, Rung, room_of
from twin.cluster.autoscaler.shrink import notice_seconds, removal_delay
from twin.cluster.nodes.node_objects import CLASS_LABEL, NodeShape
from twin.world.capacity import (
    Answer,
    Claim,
    Holding,
    World,
    claim_for,
    decide,
    to_take_away,
)
from twin.world.rules import Rules


@dataclass
class Ledger:
    """The machines of all clusters."""

    world: World
    project: str
    holdings: dict[str, Holding] = field(default_factory=dict[str, Holding])
    """By node."""
    _sums: dict[Claim, int] = field(default_factory=dict[Claim, int])
    """Chips of the holdings that count alike: by claim, without node and chips."""

    def acquire(self, claims: Sequence[Claim], cluster: str, now: float) -> Answer:
        """Allocate machines, all or none."""
        answer = decide(self.world, self._held(now), claims, self.project)
        if answer.granted:
            for claim in claims:
                self.holdings[claim.node] = Holding(claim, cluster, now)
                self._add(claim, claim.chips)
        return answer

    def _held(self, now: float) -> Iterable[Holding]:
        """Return what is allocated; without quotas, which also count machines, as sums of chips.

        A decision would otherwise read every machine of the platform.
        """
        if self.world.quota:
            return self.holdings.values()
        return [Holding(replace(one, chips=sum_), "", now) for one, sum_ in self._sums.items()]

    def release(self, node: str) -> None:
        """Return the machine of a node, if it has one."""
        holding = self.holdings.pop(node, None)
        if holding is not None:
            self._add(holding.claim, -holding.claim.chips)

    def _add(self, claim: Claim, chips: int) -> None:
        kind = replace(claim, node="", chips=0)
        self._sums[kind] = self._sums.get(kind, 0) + chips

    def taken(self, cluster: str) -> dict[str, str]:
        """Return the nodes of a cluster that lose their machine, with the reason."""
        lost = to_take_away(self.world, self.holdings.values())
        return {
            holding.claim.node: reason
            for holding, reason in lost.items()
            if holding.cluster == cluster
        }


@dataclass(eq=False)
class Replica:
    """A replica of a workload."""

    workload: Workload
    created: float
    pods: tuple[Pod, ...]
    nodes: tuple["Node", ...] = ()
    """Nodes of its pods; none before it is placed."""
    runs_at: float = 0.0
    """Time from which its containers run."""
    ready_at: float = 0.0
    engine: int | None = None
    """Number of its engine once it is ready."""
    leaves_at: float | None = None
    """Time at which it is killed; None unless it is leaving."""
    revision: int = 0
    """Rollouts of its workload before it was created."""

    def is_ready(self, now: float) -> bool:
        """Return whether it serves: an engine, or a program."""
        if self.workload.starts_seconds is None:
            return self.engine is not None and not self.is_leaving
        return bool(self.nodes) and self.ready_at <= now and not self.is_leaving

    @property
    def is_leaving(self) -> bool:
        """Whether it was deleted and answers its last requests."""
        return self.leaves_at is not None


@dataclass(eq=False)
class Node:
    """A node, or one that is being created."""

    name: str
    group: str
    """Nodes of one group are created and removed together."""
    shape: NodeShape
    zone: str
    rung: int | None
    requested: float
    ready_at: float
    room: Room
    replicas: list[Replica] = field(default_factory=list[Replica])
    ends_at: float | None = None
    """Time at which its machine stops; None without a notice."""
    is_cordoned: bool = False
    empty_since: float | None = None
    owner: str = ""
    """Pool of the gateway whose replica it had first."""

    def __post_init__(self) -> None:
        """Keep what an empty node has."""
        self._free = dict(self.room.free)

    def empty_room(self) -> Room:
        """Return the node without pods."""
        return Room(self.room.labels, self.room.taints, dict(self._free), [])

    @property
    def class_name(self) -> str:
        """Name of its compute class."""
        return self.room.labels.get(CLASS_LABEL, "")


@dataclass
class _Queued:
    offers: tuple[Offer, ...]
    until: float
    next_try: float


@dataclass
class _Upgrade:
    """Nodes of one pool that are replaced, in groups."""

    surge: Surge
    groups: list[str]
    """Groups that are not begun."""
    replacements: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """Nodes in place of a group that is drained; none yet where it goes first."""
    until: float = math.inf


@dataclass
class _Move:
    source: str
    target: frozenset[str]
    rung: Rung


class Cluster:
    """The nodes and replicas of one region."""

    def __init__(
        self, region: Region, rules: Rules, ledger: Ledger, log: Log, ends: Callable[[Node], None]
    ) -> None:
        self.region = region
        self._rules = rules
        self._ledger = ledger
        self._log = log
        self._ends = ends
        self.nodes: dict[str, Node] = {}
        self.replicas: list[Replica] = []
        self._numbers = count()
        self._cooling: dict[tuple[str, int], float] = {}
        self._paused: dict[str, float] = {}
        self._queued: list[_Queued] = []
        self._moves: dict[str, _Move] = {}
        self._next_move: dict[str, float] = {}
        self._upgrades: list[_Upgrade] = []
        self._is_dirty = True
        self._looked = -math.inf

    # -- replicas

    def create(self, workload: Workload, now: float) -> Replica:
        """Create a replica, which waits for nodes."""
        number = next(self._numbers)
        pods = tuple(
            replace(pod, uid=f"{number}-{at}", name=f"{workload.name}-{number}-{at}")
            for at, pod in enumerate(workload.pods)
        )
        found = Replica(workload, now, pods)
        self.replicas.append(found)
        self._is_dirty = True
        return found

    def create_pools(self, now: float) -> None:
        """Create the first nodes of the pools without a class, on which the programs run."""
        plain = (name for rung in self._plain() for name in rung.pools)
        for spec in (self.region.pools[name] for name in plain):
            if spec.shape.machine.accelerator is not None:
                continue
            for zone, number in spec.at_creation().items():
                for _ in range(number):
                    self._create(spec.shape, zone, 1, None, now)

    def remove(self, replica: Replica) -> None:
        """Remove a replica and its pods."""
        self.replicas.remove(replica)
        for node in dict.fromkeys(replica.nodes):
            node.replicas.remove(replica)
            self._refresh(node)
        self._is_dirty = True

    def _refresh(self, node: Node) -> None:
        node.room = node.empty_room()
        for other in node.replicas:
            for pod, on in zip(other.pods, other.nodes, strict=True):
                if on is node:
                    node.room.take(pod)

    def place(self, now: float) -> list[Replica]:
        """Schedule pending replicas on nodes that are ready; return those that were placed."""
        if not self._is_dirty:
            return []
        self._is_dirty = False
        usable = [
            node
            for node in self.nodes.values()
            if node.ready_at <= now and node.ends_at is None and not node.is_cordoned
        ]
        placed: list[Replica] = []
        full: set[int] = set()
        starts: dict[int, int] = {}
        for replica in self.replicas:
            if replica.nodes or replica.is_leaving or id(replica.workload) in full:
                continue
            # nodes that had no room for a replica have none for the next one of the workload
            first = starts.get(id(replica.workload), 0)
            is_program = replica.workload.starts_seconds is not None
            nodes = _spread(replica.workload, usable) if is_program else usable[first:]
            chosen = _fit(replica, nodes)
            if chosen is not None and len(chosen) == 1 and not is_program:
                starts[id(replica.workload)] = usable.index(chosen[0], first)
            if chosen is None:
                full.add(id(replica.workload))
                continue
            replica.nodes = chosen
            for node in dict.fromkeys(chosen):
                node.replicas.append(replica)
                node.empty_since = None
                node.owner = node.owner or replica.workload.pool
            for pod, node in zip(replica.pods, chosen, strict=True):
                node.room.take(pod)
            placed.append(replica)
        return placed

    # -- the autoscaler of nodes

    def scan(self, now: float) -> None:
        """Add nodes for pending pods, remove empty ones, and move work to better rungs."""
        self._retry(now)
        waiting: dict[str, list[Pod]] = {}
        for replica in self.replicas:
            if not replica.nodes and not replica.is_leaving:
                for pod in replica.pods:
                    waiting.setdefault(pod.compute_class or "", []).append(pod)
        coming = [each.empty_room() for each in self._coming(now)]
        coming += [
            room_of(offer.shape, offer.zone)
            for queued in self._queued
            for offer in queued.offers[:1]
            for _ in range(offer.hosts)
        ]
        for name, pods in sorted(waiting.items()):
            self._serve(name, pods, coming, now)
        self._advance_upgrades(now)
        self._remove_empty(waiting, now)
        for klass in self.region.classes.values():
            if klass.migrates:
                self._migrate(klass, is_waiting=klass.name in waiting, now=now)

    def is_creating(self, pod: Pod) -> bool:
        """Return whether a node is being created that could hold a pod."""
        return any(
            not node.replicas and refusal(pod, node.room) is None for node in self.nodes.values()
        )

    def _coming(self, now: float) -> Iterator[Node]:
        return (each for each in self.nodes.values() if each.ready_at > now)

    def _serve(self, name: str, pods: Sequence[Pod], coming: Sequence[Room], now: float) -> None:
        klass = self.region.classes.get(name)
        if now < self._paused.get(name, 0.0) or (name and klass is None):
            return
        counts = self._counts()
        cooling = {rung: until for (of, rung), until in self._cooling.items() if of == name}
        scan = Scan(
            klass,
            self.region.pools,
            counts,
            cooling,
            now,
            self.region.zones,
            lambda found: self._ask(found, now),
        )
        rungs = self._plain() if klass is None else klass.rungs
        for verdict in plan(scan, lambda _: rungs, pods, coming):
            if verdict.kind == "failed" and verdict.offer and verdict.answer:
                pause = self._rules.scaled("rung.stockout.detect")
                self._paused[name] = now + pause
                self._cool(name, verdict.offer.rung, verdict.answer, now)

    def _counts(self) -> dict[str, dict[str, int]]:
        """Return the number of nodes by pool and zone, with those being created."""
        counts: dict[str, dict[str, int]] = {}
        for node in self.nodes.values():
            zones = counts.setdefault(node.shape.pool, {})
            zones[node.zone] = zones.get(node.zone, 0) + 1
        return counts

    def _plain(self) -> tuple[Rung, ...]:
        """Return the rungs of pods without a class: the autoscaled pools without one."""
        plain = [
            spec
            for spec in self.region.pools.values()
            if spec.autoscaled and not spec.queued and spec.shape.compute_class is None
        ]
        return tuple(
            Rung(index, {"nodepools": [spec.name]}, spec.shape.provisioning, ())
            for index, spec in enumerate(sorted(plain, key=lambda spec: spec.name))
        )

    def _cool(self, name: str, rung: Rung, answer: Answer, now: float) -> None:
        self._cooling[name, rung.index] = now + self._rules.scaled(cooldown_rule(answer))
        kind = "rung.quota" if answer.outcome == "quota" else "rung.stockout"
        where = f"{name or 'no class'} in {self.region.name}"
        self._log.add(now, kind, self.region.name, f"{rung.title} of {where}: {answer.code}")

    def _ask(self, found: Sequence[Offer], now: float) -> tuple[Answer, Offer]:
        first = found[0]
        if first.rung.wait_seconds > 0:
            is_flex = first.rung.provisioning == "flex-start"
            start = now + (self._rules.scaled("node.create.flex-start") if is_flex else 0.0)
            until = max(start, now + first.rung.wait_seconds / self._rules.speed)
            self._queued.append(_Queued(tuple(found), until, start))
            return Answer("granted"), first
        answer = Answer("refused")
        for offer in found:
            answer, made = self._request(offer, now)
            if made is not None:
                return answer, replace(offer, shape=made)
        return answer, first

    def _request(self, offer: Offer, now: float) -> tuple[Answer, NodeShape | None]:
        """Request the nodes of an offer; return the shape that they get."""
        answer = Answer("refused")
        pool = offer.shape.pool
        is_own = offer.pool is None and offer.hosts > 1  # each slice has a pool of its own
        named = offer.shape.in_pool(f"{pool}-{next(self._numbers)}") if is_own else offer.shape
        for shape in forms(offer, named, self._ledger.world):
            answer = self._create(shape, offer.zone, offer.hosts, offer.rung.index, now)
            if answer.granted:
                return answer, shape
        return answer, None

    def _create(
        self, shape: NodeShape, zone: str, hosts: int, rung: int | None, now: float
    ) -> Answer:
        """Request machines of one shape, and create their nodes if they are granted."""
        unique = next(self._numbers)
        names = [f"{self.region.name}/{shape.pool}/{unique}-{at}" for at in range(hosts)]
        claims = [
            claim_for(
                shape.machine, node=name, zone=zone, provisioning=shape.provisioning,
                reservation=shape.reservation,
            )
            for name in names
        ]  # fmt: skip
        answer = self._ledger.acquire(claims, self.region.name, now)
        if answer.granted:
            ready = now + self._rules.scaled(f"node.create.{shape.machine.kind}")
            for name in names:
                room = room_of(shape, zone)
                self.nodes[name] = Node(name, names[0], shape, zone, rung, now, ready, room)
        return answer

    def _retry(self, now: float) -> None:
        """Retry the requests that wait for capacity."""
        for queued in list(self._queued):
            if now < queued.next_try:
                continue
            answer = Answer("refused")
            for offer in queued.offers:
                answer, made = self._request(offer, now)
                if made is not None:
                    break
            if answer.granted:
                self._queued.remove(queued)
            elif now >= queued.until:
                self._queued.remove(queued)
                shape = queued.offers[0].shape
                self._cool(shape.compute_class or "", queued.offers[0].rung, answer, now)

    # -- withdrawn machines

    def advance(self, now: float, *, has_changed: bool) -> list[tuple[Replica, float]]:
        """Give notices and remove machines that end; return replicas that end, and when.

        Args:
            now: Current time.
            has_changed: Whether the world has changed since the last call.
        """
        if any(self._looked < each.ready_at <= now for each in self.nodes.values()):
            self._is_dirty = True  # nodes have registered since
        self._looked = now
        ending: list[tuple[Replica, float]] = []
        if has_changed:
            lost = self._ledger.taken(self.region.name)
            groups = {self.nodes[name].group: reason for name, reason in lost.items()}
            for node in [each for each in self.nodes.values() if each.group in groups]:
                if node.ends_at is None:
                    ending += self._notice(node, groups[node.group], now)
        for node in list(self.nodes.values()):
            if node.ends_at is not None and now >= node.ends_at:
                self._delete(node)
        return ending

    def _notice(self, node: Node, reason: str, now: float) -> list[tuple[Replica, float]]:
        if node.ready_at > now:  # a request whose nodes do not exist yet
            self._delete(node)
            return []
        seconds = notice_seconds(reason, self._rules)
        node.ends_at = now + seconds
        grace = min(seconds, self._rules.scaled("node.spot.pods"))
        what = f"{node.shape.machine.name} {node.shape.provisioning} in {node.zone}: {reason}"
        self._log.add(now, "node.notice", self.region.name, what)
        return [(replica, now + grace) for replica in node.replicas]

    def _delete(self, node: Node) -> None:
        self._ends(node)
        del self.nodes[node.name]
        self._ledger.release(node.name)

    # -- nodes that are not needed

    def _groups(self, now: float) -> dict[str, list[Node]]:
        found: dict[str, list[Node]] = {}
        for node in self.nodes.values():
            if node.ready_at <= now and node.ends_at is None:
                found.setdefault(node.group, []).append(node)
        return found

    def _remove_empty(self, waiting: dict[str, list[Pod]], now: float) -> None:
        held = {group for upgrade in self._upgrades for group in upgrade.replacements}
        held |= {name for upgrade in self._upgrades for made in upgrade.replacements.values()
                 for name in made}  # fmt: skip
        for key, group in self._groups(now).items():
            if key in held or any(node.replicas for node in group):
                continue
            first = group[0]
            pods = waiting.get(first.class_name, ())
            is_awaited = not first.is_cordoned and any(
                refusal(pod, node.room) is None for node in group for pod in pods
            )
            if is_awaited or not self._may_go(first):
                first.empty_since = None
                continue
            if first.empty_since is None:
                first.empty_since = now
            delay = removal_delay(self.region.classes.get(first.class_name), self._rules)
            if now - first.empty_since >= delay or first.is_cordoned:
                for node in group:
                    self._delete(node)

    def _may_go(self, node: Node) -> bool:
        spec = self.region.pools.get(node.shape.pool)
        if spec is None:
            return node.shape.auto_created
        return spec.may_shrink(self._counts().get(node.shape.pool, {}), node.zone)

    # -- moves to a better rung

    def _is_cooling(self, now: float) -> Callable[[str, Rung], bool]:
        return lambda name, rung: now < self._cooling.get((name, rung.index), 0.0)

    def _migrate(self, klass: Class, *, is_waiting: bool, now: float) -> None:
        move = self._moves.get(klass.name)
        if move is not None:
            self._advance_move(klass, move, now)
            return
        if is_waiting or now < self._next_move.get(klass.name, 0.0):
            return
        self._next_move[klass.name] = now + self._rules.scaled("rung.active-migration")
        places = {rung.index: place for place, rung in enumerate(klass.rungs)}
        groups = [
            group
            for group in self._groups(now).values()
            if group[0].class_name == klass.name and any(node.replicas for node in group)
        ]

        def place_of(group: list[Node]) -> int:
            return places.get(-1 if group[0].rung is None else group[0].rung, len(places))

        counts = self._counts()
        for group in sorted(groups, key=place_of, reverse=True):
            pods = [pod for node in group for pod in _pods_on(node)]
            if place_of(group) == 0:
                return
            found = better(
                klass, self.region.pools, counts, place_of(group), pods, self._is_cooling(now)
            )
            for rung, offers in found:
                target = self._room(klass, rung, offers, pods, now)
                if target is not None:
                    self._moves[klass.name] = _Move(group[0].group, target, rung)
                    return

    def _room(
        self, klass: Class, rung: Rung, offers: Sequence[Offer], pods: list[Pod], now: float
    ) -> frozenset[str] | None:
        rooms: list[Room] = []
        for node in self.nodes.values():
            is_ready = node.ready_at <= now and node.ends_at is None and not node.is_cordoned
            if node.class_name == klass.name and node.rung == rung.index and is_ready:
                own = node.empty_room()
                for pod in _pods_on(node):
                    own.take(pod)
                rooms.append(own)
        if not pack(pods, rooms):
            return frozenset()
        for offer in offers:
            if rung.wait_seconds and rung.provisioning == "flex-start":
                continue
            before = set(self.nodes)
            if self._request(offer, now)[1] is not None:
                return frozenset(set(self.nodes) - before)
        return None

    def _advance_move(self, klass: Class, move: _Move, now: float) -> None:
        source = [each for each in self.nodes.values() if each.group == move.source]
        if not source or any(name not in self.nodes for name in move.target):
            for node in source:
                node.is_cordoned = False
            del self._moves[klass.name]
            return
        if any(self.nodes[name].ready_at > now for name in move.target):
            return
        for node in source:
            node.is_cordoned = True
        if not any(node.replicas for node in source):
            for node in source:
                self._delete(node)
            del self._moves[klass.name]

    def evicted(self) -> list[Replica]:
        """Return the replicas on cordoned nodes, which are to move."""
        sources = {move.source for move in self._moves.values()}
        sources |= {group for upgrade in self._upgrades for group in upgrade.replacements}
        if not sources:
            return []
        found: list[Replica] = []
        for node in self.nodes.values():
            if node.group in sources and node.is_cordoned:
                found += [each for each in node.replicas if not each.is_leaving]
        return list(dict.fromkeys(found))

    # -- upgrades of nodes

    def upgrade(self, until: float) -> int:
        """Begin to replace all nodes, pool by pool; return their number.

        Args:
            until: Time from which no further group of nodes is begun.
        """
        pools: dict[str, dict[str, None]] = {}
        for node in self.nodes.values():
            if node.ends_at is None:
                pools.setdefault(node.shape.pool, {})[node.group] = None
        settings = self.region.upgrades
        for pool, groups in sorted(pools.items()):
            surge = settings.by_pool.get(pool, settings.created)
            self._upgrades.append(_Upgrade(surge, list(groups), until=until))
        return sum(len(groups) for groups in pools.values())

    def _advance_upgrades(self, now: float) -> None:
        """Replace nodes of the first pool that is not done: GKE upgrades one at a time."""
        while self._upgrades:
            upgrade = self._upgrades[0]
            for group in list(upgrade.replacements):
                self._advance_upgrade(upgrade, group, now)
            present = {node.group for node in self.nodes.values()}
            upgrade.groups = [group for group in upgrade.groups if group in present]
            if now >= upgrade.until and upgrade.groups:
                self._log.add(
                    now, "upgrade.paused", self.region.name,
                    f"the window ends before {len(upgrade.groups)} more groups of nodes",
                )  # fmt: skip
                upgrade.groups = []
            most = max(1, upgrade.surge.extra + upgrade.surge.unavailable)
            while upgrade.groups and len(upgrade.replacements) < most:
                if not self._begin_upgrade(upgrade, now):
                    return
            if upgrade.replacements:
                return
            del self._upgrades[0]

    def _begin_upgrade(self, upgrade: _Upgrade, now: float) -> bool:
        """Begin to replace a group; return whether it could be begun."""
        group = upgrade.groups[0]
        nodes = [node for node in self.nodes.values() if node.group == group]
        made: frozenset[str] = frozenset()
        if upgrade.surge.extra:
            made = self._replaced(nodes, now)
            if not made:
                return False  # no capacity for the surge: GKE tries again
        upgrade.groups.pop(0)
        upgrade.replacements[group] = made
        if not made:
            self._cordon(nodes)
        return True

    def _advance_upgrade(self, upgrade: _Upgrade, group: str, now: float) -> None:
        nodes = [node for node in self.nodes.values() if node.group == group]
        made = upgrade.replacements[group]
        if any(name in self.nodes and self.nodes[name].ready_at > now for name in made):
            return  # a surge node, or the one in place of a group that is gone
        if not nodes:
            del upgrade.replacements[group]
            return
        self._cordon(nodes)
        if any(node.replicas for node in nodes):
            return
        for node in nodes:
            self._delete(node)
        if made:
            del upgrade.replacements[group]
        else:
            upgrade.replacements[group] = self._replaced(nodes, now)

    def _replaced(self, nodes: Sequence[Node], now: float) -> frozenset[str]:
        """Request nodes like some; return their names, none without capacity."""
        before = set(self.nodes)
        first = nodes[0]
        self._create(first.shape, first.zone, len(nodes), first.rung, now)
        return frozenset(set(self.nodes) - before)

    def _cordon(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            node.is_cordoned = True


def _spread(workload: Workload, nodes: Sequence[Node]) -> list[Node]:
    """Return nodes in the order in which a program's replicas spread over zones and hosts."""
    on = {node.name: sum(one.workload is workload for one in node.replicas) for node in nodes}
    zones: dict[str, int] = {}
    for node in nodes:
        zones[node.zone] = zones.get(node.zone, 0) + on[node.name]
    return sorted(nodes, key=lambda node: (zones[node.zone], on[node.name]))


def _pods_on(node: Node) -> Iterable[Pod]:
    for replica in node.replicas:
        for pod, on in zip(replica.pods, replica.nodes, strict=True):
            if on is node:
                yield pod


def _fit(replica: Replica, usable: Sequence[Node]) -> tuple[Node, ...] | None:
    """Return a node for each pod of a replica; None if one has none."""
    if len(replica.pods) == 1:
        pod = replica.pods[0]
        node = next((each for each in usable if refusal(pod, each.room) is None), None)
        return None if node is None else (node,)
    groups: dict[str, list[Node]] = {}
    for node in usable:
        groups.setdefault(node.shape.pool if node.shape.topology else "", []).append(node)
    for group in groups.values():
        rooms = [each.empty_room() for each in group]
        for room, node in zip(rooms, group, strict=True):
            for pod in _pods_on(node):
                room.take(pod)
        chosen: list[Node] = []
        for pod in replica.pods:
            at = next((n for n, room in enumerate(rooms) if refusal(pod, room) is None), None)
            if at is None:
                break
            rooms[at].take(pod)
            chosen.append(group[at])
        else:
            return tuple(chosen)
    return None
