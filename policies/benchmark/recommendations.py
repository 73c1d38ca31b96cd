"""Reads the recommendations, and joins them with the policies that implement them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml

from policies.framework.registry import Listed
from policies.framework.rule import Policy
from policies.rules import policies

FILE = Path(__file__).with_name("cis_gke.yaml")
Status = Literal["met", "not applicable", "open"]


@dataclass(frozen=True)
class Component:
    """What a component always sets."""

    says: str
    """The answer, as part of a sentence."""
    file: str
    """Source file, from the root of the repository."""
    type: str
    """Type of the resource with the property, or empty for all with `labels`."""
    labels: Mapping[str, str]
    """Labels of the Kubernetes objects with the property."""
    property: str
    """Path of the property, or empty if a test looks at more than one."""
    value: Any
    """Its value, None if it is never set."""


@dataclass(frozen=True)
class Recommendation:
    """One recommendation with its answer."""

    number: str
    title: str
    section: str
    """Heading of its group."""
    policies: tuple[str, ...]
    """Names of the policies that implement it."""
    component: Component | None
    not_applicable: str
    """Why it does not apply, or empty."""
    open: str
    """What is missing, or empty."""

    @property
    def status(self) -> Status:
        """The answer in a word. One that is met in part is open."""
        if self.open:
            return "open"
        return "not applicable" if self.not_applicable else "met"


def recommendations() -> dict[str, Recommendation]:
    """Return every recommendation by number, in the order of the benchmark.

    Raises:
        ValueError: a number has no answer or more than one, or a policy claims one that the
            benchmark does not have.
    """
    return joined(_data(), policies())


def version() -> str:
    """Return the version of the benchmark."""
    return str(_data()["version"])


def joined(
    data: Mapping[str, Any], rules: Mapping[str, Listed[Policy]]
) -> dict[str, Recommendation]:
    """Return the recommendations of some data with the policies that implement them."""
    claims: dict[str, list[str]] = {}
    for name, listed in rules.items():
        for number in listed.rule.cis:
            claims.setdefault(number, []).append(name)
    found = {
        str(each["number"]): _recommendation(each, data["sections"], claims)
        for each in data["recommendations"]
    }
    for number in claims.keys() - found.keys():
        raise ValueError(f"{claims[number][0]}.cis: must be in {FILE.name}, got {number!r}")
    return found


def _recommendation(
    entry: Mapping[str, Any], sections: Mapping[str, str], claims: Mapping[str, list[str]]
) -> Recommendation:
    number = str(entry["number"])
    component = Component(**_EMPTY | entry["component"]) if "component" in entry else None
    made = Recommendation(
        number=number,
        title=entry["title"],
        section=sections[number.rpartition(".")[0]],
        policies=tuple(claims.get(number, ())),
        component=component,
        not_applicable=entry.get("not_applicable", ""),
        open=entry.get("open", ""),
    )
    met = bool(made.policies) or component is not None
    if (made.not_applicable and (met or made.open)) or not (
        met or made.not_applicable or made.open
    ):
        raise ValueError(
            f"{FILE.name}: {number} must have policies, a component, a reason why it does not"
            " apply, or what is open"
        )
    return made


_EMPTY: dict[str, Any] = {"type": "", "labels": {}, "property": "", "value": None}


@cache
def _data() -> dict[str, Any]:

    return yaml.safe_load(FILE.read_text())
