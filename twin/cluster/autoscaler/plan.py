"""One scan's decisions for one compute class: which rung, which zone, how many nodes. Pure.

Capacity is requested through a function, so that tests can decide the answer.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from twin.cluster.autoscaler.pods import Pod, Room, may_share_pool, refusal
from twin.cluster.autoscaler.rungs import Class, Offer, Rung, anyway_rung, offers, room_of
from twin.cluster.nodes.node_objects import NodeShape
from twin.cluster.nodes.pool_spec import PoolSpec
from twin.world.capacity import Answer, World, claim_for

Ask = Callable[[Sequence[Offer]], tuple[Answer, Offer]]
"""Requests the first available offer; returns the answer and its offer."""


@dataclass
class Verdict:
    """The decision for some pods."""

    kind: Literal["requested", "failed", "refused", "waiting"]
    """requested: nodes are being created; failed: no capacity is available; refused: no rung can
    hold the pod; waiting: every suitable rung is in its cooldown."""
    pods: list[Pod]
    offer: Offer | None = None
    answer: Answer | None = None
    reasons: Counter[str] = field(default_factory=Counter[str])

    @property
    def message(self) -> str:
        """The reasons in the format of the cluster autoscaler."""
        listed = ", ".join(f"{count} {why}" for why, count in sorted(self.reasons.items()))
        return f"pod didn't trigger scale-up: {listed or 'no rung'}"


@dataclass
class Scan:
    """The input of a scan for one class, and its decisions so far."""

    klass: Class | None
    pools: Mapping[str, PoolSpec]
    pool_counts: dict[str, dict[str, int]]
    """Nodes by pool and zone, including those being created; updated during planning."""
    cooling: Mapping[int, float]
    """End of each rung's cooldown, by its index."""
    now: float
    zones: tuple[str, ...]
    ask: Ask


def pack(pods: Sequence[Pod], rooms: Sequence[Room]) -> list[Pod]:
    """Assign pods to rooms, first fit; return those that fit nowhere."""
    left: list[Pod] = []
    firsts: dict[tuple[int, ...], int] = {}
    for pod in pods:
        # rooms only fill, so those that refused a pod refuse the next one like it
        parts = _parts(pod)
        at = firsts.get(parts, 0)
        while at < len(rooms) and not (
            refusal(pod, rooms[at]) is None and may_share_pool(pod, rooms[at], rooms)
        ):
            at += 1
        firsts[parts] = at
        if at == len(rooms):
            left.append(pod)
        else:
            rooms[at].take(pod)
    return left


def _parts(pod: Pod) -> tuple[int, ...]:
    """Return the identity of all that decides where a pod fits; pods of one template share it."""
    return (
        id(pod.requests), id(pod.selector), id(pod.affinity), id(pod.tolerations),
        id(pod.alone_by), id(pod.alone_in_pool), id(pod.labels), id(pod.devices), id(pod.volumes),
    )  # fmt: skip


def plan(
    scan: Scan, rungs: Callable[[Pod], Sequence[Rung]], pods: Sequence[Pod], coming: Sequence[Room]
) -> list[Verdict]:
    """Decide for the pending pods of one class.

    The first failed request ends the scan. Its rung starts a cooldown, and the next scan tries the
    next rung.

    Args:
        scan: state of the class.
        rungs: returns the rungs that a pod may use, in order.
        pods: pods for which the scheduler found no node.
        coming: nodes that were requested or that became ready a moment ago.
    """
    left = pack(pods, coming)
    verdicts: list[Verdict] = []
    refused: dict[object, Verdict] = {}
    while left:
        pod = left.pop(0)
        signature = _signature(pod)
        if signature in refused:
            refused[signature].pods.append(pod)
            continue
        verdict = _decide(scan, rungs(pod), pod)
        verdicts.append(verdict)
        if verdict.kind == "failed":
            verdict.pods += left
            break
        if verdict.kind != "requested" or verdict.offer is None:
            refused[signature] = verdict
            continue
        rooms = [
            room_of(verdict.offer.shape, verdict.offer.zone) for _ in range(verdict.offer.hosts)
        ]
        rooms[0].take(pod)
        waiting = left
        left = pack(waiting, rooms)
        kept = {id(other) for other in left}
        verdict.pods += [other for other in waiting if id(other) not in kept]
    return verdicts


def _signature(pod: Pod) -> object:
    return (
        tuple(sorted(pod.requests.items())),
        tuple(sorted(pod.selector.items())),
        pod.affinity,
        pod.tolerations,
        pod.devices,
        pod.volumes,
    )


def _decide(scan: Scan, rungs: Sequence[Rung], pod: Pod) -> Verdict:
    reasons: Counter[str] = Counter()
    cooling = False
    steps = [*rungs]
    if scan.klass is not None and scan.klass.scale_up_anyway:
        steps.append(anyway_rung(scan.zones))
    for rung in steps:
        found, refusals = offers(rung, pod, scan.klass, scan.pools)
        found = [offer for offer in found if _below_maximum(scan, offer)]
        if not found:
            reasons.update(set(refusals) or {"max node group size reached"})
            continue
        if scan.now < scan.cooling.get(rung.index, 0.0):
            reasons["in backoff after failed scale-up"] += 1
            cooling = True
            continue
        answer, offer = scan.ask(found)
        if not answer.granted:
            return Verdict("failed", [pod], offer, answer)
        if offer.pool is not None:
            counts = scan.pool_counts.setdefault(offer.pool.name, {})
            counts[offer.zone] = counts.get(offer.zone, 0) + offer.hosts
        return Verdict("requested", [pod], offer, answer)
    return Verdict("waiting" if cooling else "refused", [pod], reasons=reasons)


def _below_maximum(scan: Scan, offer: Offer) -> bool:
    if offer.pool is None:
        return True
    return offer.pool.may_grow(scan.pool_counts.get(offer.pool.name, {}), offer.zone)


def forms(offer: Offer, shape: NodeShape, world: World) -> list[NodeShape]:
    """Return the shapes to request in order; AnyBestEffort tries reservations first.

    Args:
        offer: Offer of a rung.
        shape: Its shape, in the pool that the nodes get.
        world: The world, with the reservations that it has.
    """
    if not offer.rung.any_reservation:
        return [shape]
    names = [line.reservation for line in world.stock if line.reservation is not None]
    found: list[NodeShape] = []
    for name in names:
        form = replace(shape, provisioning="reservation", reservation=name)
        claim = claim_for(
            form.machine, node="", zone=offer.zone, provisioning="reservation", reservation=name
        )
        if any(line.covers(claim) for line in world.stock):
            found.append(form)
    return [*found, shape]


def cooldown_rule(answer: Answer) -> str:
    """Return the rule with the time for which a rung is not retried after a refusal."""
    return "rung.quota.cooldown" if answer.outcome == "quota" else "rung.cooldown"
