"""Numbers of projects, which members of roles contain (rule cloud.project-numbers)."""

from typing import Final

from twin.providers.gcp.resources.identity import project_number
from twin.world.store import Store

_FACT: Final = "project number {project}"


def known_number(project: str, store: Store) -> str | None:
    """Return the number that the first member of a role gave a project, if any."""
    found = store.fact(_FACT.format(project=project))
    return None if found is None else str(found)


def is_number_of(project: str, number: str, store: Store) -> bool:
    """Return whether a number can be that of a project: it has no other."""
    return number == project_number(project) or known_number(project, store) in (None, number)


def learn(project: str, number: str, store: Store) -> None:
    """Record the number of a project, unless it has one or the twin made this one up."""
    if number != project_number(project) and known_number(project, store) is None:
        store.note(_FACT.format(project=project), number)
