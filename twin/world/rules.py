"""The rules of the twin from `rules.yaml`, each with its value and its public source."""

import json
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import yaml

from twin.host.paths import REPOSITORY, TwinPaths

RULES_FILE = REPOSITORY / "twin" / "rules.yaml"
DEFAULT_SPEED = 100.0


@dataclass(frozen=True)
class Rule:
    """One assumption of the twin."""

    id: str
    text: str
    value: Any
    unit: str
    source: str
    date: str
    confidence: Literal["documented", "observed", "assumed"]
    where: str = ""
    """File that implements the rule; empty for a rule whose value is read by its ID."""


@cache
def all_rules() -> dict[str, Rule]:
    """Return every rule by its ID, in the order of the file."""
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    entries: list[dict[str, Any]] = yaml.load(RULES_FILE.read_text(), Loader=loader)["rules"]  # noqa: S506 - a safe one
    rules: dict[str, Rule] = {}
    for entry in entries:
        rule = Rule(
            id=entry["id"],
            text=entry["text"],
            value=entry.get("value"),
            unit=entry.get("unit", ""),
            source=entry["source"],
            date=str(entry["date"]),
            confidence=entry["confidence"],
            where=entry.get("where", ""),
        )
        if rule.id in rules:
            raise ValueError(f"rules.yaml: {rule.id} is listed twice")
        rules[rule.id] = rule
    return rules


@dataclass(frozen=True)
class Rules:
    """Rule values on a clock that runs `speed` times as fast as Google's."""

    speed: float = DEFAULT_SPEED

    @classmethod
    def of(cls, paths: TwinPaths) -> "Rules":
        """Return the rules at the speed of the twin in `paths`."""
        try:
            settings = json.loads(paths.settings_file.read_text())
        except FileNotFoundError:
            return cls()
        return cls(speed=float(settings.get("speed", DEFAULT_SPEED)))

    def value(self, rule_id: str) -> Any:
        """Return a rule's value from the file; `KeyError` names an unknown rule."""
        return all_rules()[rule_id].value

    def seconds(self, rule_id: str) -> float:
        """Return a duration in seconds of Google's clock."""
        rule = all_rules()[rule_id]
        if rule.unit != "seconds":
            raise ValueError(f"rule {rule_id} is in {rule.unit or 'no unit'}, not in seconds")
        return float(rule.value)

    def scaled(self, rule_id: str) -> float:
        """Return a duration in seconds of the twin's clock."""
        return self.seconds(rule_id) / self.speed
