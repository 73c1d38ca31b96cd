"""Which region of a front is nearest to clients of each place, by published round trips."""

from collections.abc import Collection
from dataclasses import dataclass

from gke_inference.catalogue.round_trips import round_trips
from infra.plan import Plan


@dataclass(frozen=True)
class Answer:
    """A region that answers, and the round trip to it in milliseconds."""

    region: str
    milliseconds: int


@dataclass(frozen=True)
class Distance:
    """The regions that answer clients of one region."""

    client: str
    """Region where the clients are."""
    place: str
    """Its place."""
    first: Answer
    """The nearest region of the front."""
    then: Answer | None
    """The next one after the loss of the first; None if there is none."""


@dataclass(frozen=True)
class Distances:
    """The distances of a stack."""

    by_client: list[Distance]
    unknown: list[str]
    """Regions of the front that the table of round trips does not have."""


def distances(plan: Plan) -> Distances:
    """Return the nearest regions of a stack's front for clients of each place."""
    front = plan.front
    return between(front.answering if front.router is None else front.routed)


def between(regions: Collection[str]) -> Distances:
    """Return the nearest of some regions for clients of each place."""
    table = round_trips()
    known = [each for each in regions if each in table.places]
    found: list[Distance] = []
    for client, place in table.places.items():
        answers = sorted(
            (
                Answer(region, trip)
                for region in known
                if (trip := table.between(client, region)) is not None
            ),
            key=lambda each: each.milliseconds,
        )
        if answers:
            then = answers[1] if len(answers) > 1 else None
            found.append(Distance(client, place, answers[0], then))
    return Distances(found, [each for each in regions if each not in table.places])
