"""Rules between the settings of clients that hold for stacks and for the gate of a Gateway."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.problems import join, one_of

from .settings import TeamSettings, TokenIssuer

_SPIFFE = re.compile(r"spiffe://[a-z0-9._-]{1,255}((/(?!\.{1,2}(/|$))[A-Za-z0-9._-]+)+)")
"""Form of the SPIFFE ID of a workload: a trust domain and a path (SPIFFE-ID, sections 2.1 to 2.4;
X509-SVID, section 3.1; github.com/spiffe/spiffe/tree/main/standards)."""
_LONGEST_SPIFFE = 2048
_OTHER = re.compile(r"dns:[a-z0-9*.-]+|sha256:[0-9a-f]{64}")
_IDENTITY_RULE = (
    "must be a SPIFFE ID with a path (spiffe://example.com/name, at most 2048 bytes), dns:NAME or"
    " sha256: with 64 hexadecimal digits"
)


def check_prices(
    where: str,
    teams: Mapping[str, TeamSettings],
    prices: Iterable[str],
    models: Iterable[str] | None,
) -> Iterator[InputError]:
    """Yield the budgets of teams that may use a model without a price.

    Args:
        where: Path of the settings that have `teams` and `prices`, or an empty text.
        teams: The teams.
        prices: Names of the models with a price.
        models: Names that a team without `models` may request, or None if they are not known.
    """
    priced = set(prices)
    for name, team in teams.items():
        if team.monthly_usd is None:
            continue
        allowed: Sequence[str] = team.models or sorted(models or ())
        missing = [model for model in allowed if model not in priced]
        if missing or not allowed:
            rule = f"needs '{join(where, 'prices')}' of every model that the team may use"
            note = f" without that of {missing[0]}" if missing else " without any"
            path = join(where, "teams", name, "monthly_usd")
            yield InputError(path, rule, team.monthly_usd, note)


def check_when_spent(where: str, teams: Mapping[str, TeamSettings]) -> Iterator[InputError]:
    """Yield the teams whose cheaper model has no budget before it, or not one limit of its own.

    Args:
        where: Path of the settings that have `teams`, or an empty text.
        teams: The teams.
    """
    for name, team in teams.items():
        spent, path = team.when_spent, join(where, "teams", name, "when_spent")
        if spent is None:
            continue
        if team.monthly_usd is None:
            yield InputError(path, "needs 'monthly_usd' of the team: the budget that is spent")
        if (spent.monthly_usd is None) is not spent.unlimited:
            rule = "must have either 'monthly_usd' or 'unlimited': true"
            yield InputError(path, rule, Bare("both" if spent.unlimited else "neither"))


def check_cached(
    where: str, teams: Mapping[str, TeamSettings], *, has_cache: bool
) -> Iterator[InputError]:
    """Yield the teams with cached answers where there is no cache."""
    for name, team in teams.items():
        if team.cached_answers and not has_cache:
            path = join(where, "teams", name, "cached_answers")
            yield InputError(path, f"needs '{join(where, 'cache')}'", value=True)


def check_issuers(
    where: str, issuers: Sequence[TokenIssuer], teams: Iterable[str]
) -> Iterator[InputError]:
    """Yield the values of claims whose team does not exist."""
    known = sorted(teams)
    for at, issuer in enumerate(issuers):
        for value, team in issuer.teams.items():
            if team not in known:
                yield one_of(join(where, "issuers", at, "teams", value), team, known)


def check_identities(
    where: str, identities: Mapping[str, str], teams: Iterable[str]
) -> Iterator[InputError]:
    """Yield the identities of client certificates with a wrong form or without a known team.

    Args:
        where: Path of the mapping.
        identities: Team for each identity.
        teams: Names of all teams.
    """
    known = sorted(teams)
    for identity, team in identities.items():
        if not is_identity(identity):
            yield InputError(where, _IDENTITY_RULE, identity)
        elif team not in known:
            yield one_of(join(where, identity), team, known)


def check_team_of_people(where: str, team: str, teams: Iterable[str]) -> Iterator[InputError]:
    """Yield the problem of people whose team does not exist."""
    known = sorted(teams)
    if team not in known:
        yield one_of(join(where, "people", "team"), team, known)


def is_identity(text: str) -> bool:
    """Return whether a text is the identity of a certificate.

    Google's load balancer passes no SPIFFE ID that has another form or is longer
    (docs.cloud.google.com/load-balancing/docs/https/custom-headers), so it would match nobody.
    """
    if len(text) <= _LONGEST_SPIFFE and _SPIFFE.fullmatch(text):
        return True
    return _OTHER.fullmatch(text) is not None
