"""Which licenses may be in images and Go programs, and the packages that are exceptions."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml
from license_expression import (
    ExpressionError,
    get_spdx_licensing,
)

from scripts.release.contents.record import Package

POLICY: Final = Path(__file__).with_name("licenses.yaml")
_OWN: Final = "LicenseRef-"


@dataclass(frozen=True)
class Exemption:
    """A package whose license is not on the list, and why it may be in an image."""

    name: str
    """Package, or a beginning that ends in `*`."""
    license: str
    """Its license as recorded; with another one, the exemption does not hold."""
    reason: str

    def covers(self, name: str, license: str) -> bool:  # noqa: A002 - its name in SPDX
        """Return whether it is about a package with a license."""
        named = name.startswith(self.name[:-1]) if self.name.endswith("*") else name == self.name
        return named and license == self.license


@dataclass(frozen=True)
class Policy:
    """The licenses that packages may have without a reason, and the exemptions."""

    allowed: frozenset[str]
    exemptions: tuple[Exemption, ...]
    by_hand: Mapping[str, str]
    """License of each package whose metadata declares none or not all, by name."""


def policy(file: Path = POLICY) -> Policy:
    """Return the policy of a file."""
    read: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    exemptions = tuple(Exemption(**each) for each in read["exemptions"])
    by_hand = {name: str(each["license"]) for name, each in read["by_hand"].items()}
    return Policy(frozenset(read["allowed"]), exemptions, by_hand)


def refusals(licenses: Mapping[Package, str], rules: Policy) -> list[str]:
    """Return a line for each package whose license is neither allowed nor an exemption."""
    found: list[str] = []
    for package, expression in sorted(licenses.items()):
        if any(each.covers(package.name, expression) for each in rules.exemptions):
            continue
        if not is_allowed(expression, rules.allowed):
            found.append(
                f"{package.url}: the license must be allowed in {POLICY.name}, or an exemption "
                f"with a reason, got {expression}"
            )
    return found


def idle_exemptions(licenses: Mapping[Package, str], rules: Policy) -> list[str]:
    """Return the exemptions that no package needs."""
    return [
        exemption.name
        for exemption in rules.exemptions
        if not any(
            exemption.covers(package.name, one)
            and not is_allowed(one, rules.allowed)
            for package, one in licenses.items()
        )
    ]  # fmt: skip


def is_allowed(expression: str, allowed: frozenset[str]) -> bool:
    """Return whether an SPDX expression can be met with the allowed licenses.

    Of `A OR B`, one must be allowed; of `A AND B`, both; `A WITH B` is a license of its own.
    """
    try:
        parsed: Any = _spdx().parse(expression, validate=False)
    except ExpressionError:
        return False
    return parsed is not None and _holds(parsed, allowed)


def unknown_licenses(expression: str) -> list[str]:
    """Return the words of an expression that are no SPDX identifier; `LicenseRef-…` may be any."""
    try:
        return [
            each for each in _spdx().unknown_license_keys(expression) if not each.startswith(_OWN)
        ]
    except ExpressionError as error:
        return [str(error)]


@cache
def _spdx() -> Any:
    """Return the reader of expressions, which takes a tenth of a second to make."""
    return get_spdx_licensing()


def _holds(parsed: Any, allowed: frozenset[str]) -> bool:
    operator = getattr(parsed, "operator", "").strip()
    if operator == "OR":
        return any(_holds(each, allowed) for each in parsed.args)
    if operator == "AND":
        return all(_holds(each, allowed) for each in parsed.args)
    return parsed.render() in allowed
