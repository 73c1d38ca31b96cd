"""The teams of clients that may ask each model."""

import math
from collections.abc import Iterable, Mapping

from gke_inference.clients.settings import ANONYMOUS
from infra.plan import Plan
from infra.stack import Clients, ClientTeam


def names_of(plan: Plan, models: Iterable[str]) -> tuple[str, ...]:
    """Return the names that clients request for models: their own, adapters and backends."""
    known = plan.platform.models
    own = (name for model in models for name in (model, *known[model].other_names(model)))
    return tuple(dict.fromkeys((*own, *plan.platform.backends)))


def teams_by_name(plan: Plan, names: Iterable[str]) -> dict[str, list[str]]:
    """Return the teams that may ask each model or adapter; nothing if no gate checks clients.

    Args:
        plan: The stack.
        names: Names that clients request.
    """
    if plan.clients is None:
        return {}
    teams = _teams(plan.clients.settings)
    return {
        name: [team for team, settings in teams.items() if settings.may_ask(name)] for name in names
    }


def unaskable(plan: Plan, names: Iterable[str]) -> list[str]:
    """Return the models and adapters that no team may ask.

    Args:
        plan: The stack.
        names: Names that clients request.
    """
    return [name for name, teams in teams_by_name(plan, names).items() if not teams]


def few_teams(plan: Plan, names: Iterable[str]) -> dict[str, str]:
    """Return a team for each model or adapter that one may ask.

    They are few: each is the one that may ask most of the names that are left, and among those
    the one with the highest limits per minute.

    Args:
        plan: The stack.
        names: Names that clients request.
    """
    left = {name: teams for name, teams in teams_by_name(plan, names).items() if teams}
    teams = {} if plan.clients is None else _teams(plan.clients.settings)
    found: dict[str, str] = {}
    while left:

        def rank(team: str, left: Mapping[str, list[str]] = left) -> tuple[float, ...]:
            limits = (teams[team].requests_per_minute, teams[team].tokens_per_minute)
            asked = sum(team in may for may in left.values())
            return (asked, *(math.inf if limit is None else limit for limit in limits))

        widest = max(teams, key=rank)
        found |= {name: widest for name, may in left.items() if widest in may}
        left = {name: may for name, may in left.items() if name not in found}
    return found


def _teams(clients: Clients) -> dict[str, ClientTeam]:
    """Return the teams by name, with the one of requests without a credential if they may pass."""
    if clients.anonymous is None:
        return dict(clients.teams)
    return {ANONYMOUS: ClientTeam(), **clients.teams}
