"""The places that a user has for unfinished sets, in an object that one call at a time changes."""

import json

from .sets import ENDED, Refused, Set, folder_of, from_bytes, state_of
from .store import Changed, Objects

_TRIES = 20
_STATE = "/state.json"


def places_of(user: str) -> str:
    """Return the object with the sets of a user that have a place, each with a time.

    Until that time, a set has its place even if its state is not there yet.
    """
    return f"{folder_of(user)}places.json"


async def take_place(objects: Objects, wanted: Set, most: int, now: float, until: float) -> None:
    """Give a set a place, before its state is written.

    Each write requires the generation that was read, so that of two calls at the same time the
    second one counts the set of the first.

    Args:
        objects: The bucket.
        wanted: The set, which keeps a place that it has.
        most: Number of places.
        now: Current time.
        until: Time until which the place is taken without a state that says so.

    Raises:
        Refused: Others have all places.
    """
    name = places_of(wanted.user)
    for _ in range(_TRIES):
        there = await objects.read(name)
        if there is None:
            known, generation = await _from_states(objects, wanted.user), 0
        else:
            known, generation = json.loads(there[0]), there[1]
        taken: dict[str, float] = {
            other: reserved
            for other, reserved in known.items()
            if other != wanted.name and await _is_taken(objects, wanted.user, other, reserved, now)
        }
        if len(taken) >= most:
            rule = f"must have at most {most} unfinished sets"
            raise Refused(429, f"user: {rule}, got {len(taken)} and this one")
        taken[wanted.name] = until
        try:
            await objects.write(name, json.dumps(taken).encode(), generation=generation)
        except Changed:  # by another call, or by the first attempt of a write that was repeated
            continue
        return
    rule = "must not announce or start many sets at the same time"
    raise Refused(409, f"user: {rule}, got {wanted.user}")


async def _from_states(objects: Objects, user: str) -> dict[str, float]:
    """Return all sets of a user whose places have expired with their object."""
    entries = await objects.entries(folder_of(user))
    found = [each.name for each in entries if each.name.endswith(_STATE)]
    return {name.removesuffix(_STATE).rpartition("/")[2]: 0.0 for name in found}


async def _is_taken(objects: Objects, user: str, name: str, reserved: float, now: float) -> bool:
    """Return whether a set is unfinished. One that was never uploaded is, until its URLs expire."""
    there = await objects.read(state_of(user, name))
    if there is None:
        return reserved > now
    found = from_bytes(there[0])
    if found.stage == "uploading":
        return max(found.uploads_until, reserved) > now
    return found.stage not in ENDED
