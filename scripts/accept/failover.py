"""Deletes one replica of each model under requests, and waits until another replica serves."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from infra.estimate.cold_starts import starts
from infra.plan import ServedModel
from infra.stack import Task
from scripts.accept.deployed import Cluster, Deployed, Door, seen
from scripts.accept.placement import ready_since, replicas
from scripts.accept.row import Row, Subject
from scripts.terminal.console import CommandError

_ASK_SECONDS: Final = 0.25
_LEAST_SECONDS: Final = 5.0
"""Minimum time to send requests after the deletion: a stale gateway refuses immediately."""


@dataclass
class Asked:
    """Outcome of the requests of a failover."""

    answered: int = 0
    refused: int = 0
    last_refusal: str = ""
    outage_seconds: float = 0.0
    """Longest time from a refusal to the next answer."""
    _since: float | None = None

    def note(self, refusal: str, now: float) -> None:
        """Count one request; the refusal of an answered request is empty."""
        if refusal:
            self.refused += 1
            self.last_refusal = refusal
            self._since = now if self._since is None else self._since
            return
        self.answered += 1
        if self._since is not None:
            self.outage_seconds = max(self.outage_seconds, now - self._since)
            self._since = None

    @property
    def is_out(self) -> bool:
        """Return whether the newest request was refused."""
        return self._since is not None


def ready_names(cluster: Cluster, served: ServedModel) -> list[str]:
    """Return the names of the replicas of a model that are ready.

    Raises:
        KubeError: The cluster does not answer.
    """
    pods = replicas(cluster, served)
    return sorted(pod["metadata"]["name"] for pod in pods if ready_since(pod) is not None)


def deletable(deployed: Deployed) -> Iterator[tuple[Cluster, ServedModel]]:
    """Yield the models of which a failover deletes a replica: those that generate text."""
    for region, cluster in deployed.clusters.items():
        for served in deployed.plan.regions[region].served:
            if served.version is None and served.settings.task.is_text:
                yield cluster, served


def longest_start(deployed: Deployed) -> float:
    """Return the longest start of a replica that the planner estimates, in seconds."""
    return max(each.first.high for each in starts(deployed.plan))


def failovers(deployed: Deployed, seconds: float) -> Iterator[Row]:
    """Delete one replica of each model in each region; yield whether requests were answered.

    Args:
        deployed: The platform.
        seconds: Maximum wait for the next replica.
    """
    for cluster, served in deletable(deployed):
        name = f"{served.name} in {served.region}"
        subject = Subject("failover", name, "answered while one replica is replaced")

        def look(
            subject: Subject = subject, cluster: Cluster = cluster, served: ServedModel = served
        ) -> Row:
            before = ready_names(cluster, served)
            if not before:
                return subject.not_met("no replica is ready")
            door = deployed.door(served.region)

            def request() -> str:
                return ask(deployed, door, served)

            request()  # a model that may not be asked loses no replica
            asked = Asked()
            is_back = replace(deployed, cluster, served, before, request, asked, seconds)
            return judged(subject, len(before), asked, is_back=is_back, seconds=seconds)

        yield seen(subject, look)


def replace(
    deployed: Deployed,
    cluster: Cluster,
    served: ServedModel,
    before: list[str],
    request: Callable[[], str],
    asked: Asked,
    seconds: float,
) -> bool:
    """Delete the first replica, and send requests until as many are ready and one answers.

    Args:
        deployed: The platform.
        cluster: Cluster of the replicas.
        served: Their model.
        before: Names of the replicas that are ready.
        request: Sends one request; returns the refusal, empty for an answer.
        asked: Counts the requests.
        seconds: Maximum wait.

    Returns:
        Whether as many replicas were ready again, and the last request was answered.

    Raises:
        KubeError: The cluster does not answer, or refuses.
    """
    cluster.api.delete(f"/api/v1/namespaces/{cluster.namespace}/pods/{before[0]}")
    begun = time.monotonic()
    while (passed := time.monotonic() - begun) < seconds:
        asked.note(request(), time.monotonic())
        now = ready_names(cluster, served)
        is_whole = len(now) >= len(before) and before[0] not in now
        if is_whole and not asked.is_out and passed >= _LEAST_SECONDS:
            return True
        deployed.sleep(_ASK_SECONDS)
    return False


def ask(deployed: Deployed, door: Door, served: ServedModel) -> str:
    """Send one request to a model; return the refusal, empty for an answer.

    Raises:
        NotOffered: No team of clients may ask it.
        Unreachable: The team of the user's key may not ask it.
    """
    try:
        with deployed.asking(door, served.name) as client:
            if served.settings.task is Task.EMBED:
                client.embeddings.create(model=served.name, input="Are you there?")
            else:
                client.chat.completions.create(
                    model=served.name,
                    messages=[{"role": "user", "content": "Are you there?"}],
                    max_tokens=4,
                )
    except CommandError as error:
        return str(error)
    return ""


def judged(
    subject: Subject, replicas_before: int, asked: Asked, *, is_back: bool, seconds: float
) -> Row:
    """Return whether requests were answered while a replica was replaced.

    A model with one replica has no substitute. The stack promises an outage in that case, and the
    check judges whether the outage ends.
    """
    says = f"{asked.answered} answered, {asked.refused} refused"
    if asked.refused:
        says += f" for {asked.outage_seconds:.1f} s" if not asked.is_out else " until the end"
    if not is_back:
        return subject.not_met(f"{says}; not replaced within {seconds:.0f} s: {asked.last_refusal}")
    if asked.refused and replicas_before == 1:
        alone = Subject(
            subject.subject, subject.name, "the only replica: refused until another one serves"
        )
        return alone.met(says)
    return subject.judged(says, is_met=asked.refused == 0)
