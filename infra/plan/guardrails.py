"""Guardrails in use on a platform, and the files of those with a custom configuration."""

from pathlib import Path
from typing import Final

from infra.plan.clients import gated
from infra.stack import Guardrail, GuardrailKind, Platform

ROOT: Final = Path(__file__).resolve().parents[2]
"""Root of the repository, to which `guardrails.NAME.config` is relative."""
_ARMOR_TIMEOUT_MS: Final = 1000
_NEMO_TIMEOUT_MS: Final = 2000


def used_guardrails(platform: Platform, kind: GuardrailKind) -> dict[str, Guardrail]:
    """Return the guardrails of a kind that a model or team references, in stack order."""
    named = {name for model in platform.models.values() for name in model.guardrails}
    clients = gated(platform)
    if clients is not None:
        named |= {name for team in clients.teams.values() for name in team.guardrails}
    return {
        name: guardrail
        for name, guardrail in platform.guardrails.items()
        if guardrail.kind is kind and name in named
    }


def has_guards(platform: Platform) -> bool:
    """Return whether guards run in the clusters of a platform."""
    return bool(used_guardrails(platform, GuardrailKind.NEMO))


def has_armor(platform: Platform) -> bool:
    """Return whether a platform calls Model Armor."""
    return bool(used_guardrails(platform, GuardrailKind.MODEL_ARMOR))


def floor_of(platform: Platform) -> Guardrail | None:
    """Return the guardrail whose filters are the project's floor."""
    return next((each for each in platform.guardrails.values() if each.floor), None)


def guard_replicas(platform: Platform, guardrail: Guardrail) -> int:
    """Return the number of replicas of a guard per region."""
    return guardrail.replicas or (3 if platform.protection else 2)


def timeout_ms(guardrail: Guardrail) -> int:
    """Return the maximum time to wait for a guardrail's verdict, in milliseconds."""
    is_armor = guardrail.kind is GuardrailKind.MODEL_ARMOR
    return guardrail.timeout_ms or (_ARMOR_TIMEOUT_MS if is_armor else _NEMO_TIMEOUT_MS)


def rails_of(guardrail: Guardrail) -> dict[str, str]:
    """Return the files of a NeMo guardrail by name, or nothing if it uses the image's defaults.

    Raises:
        ValueError: Its folder is not one of files; the message has the rule and the value.
    """
    if guardrail.config is None:
        return {}
    folder = ROOT / guardrail.config
    if ROOT not in folder.resolve().parents or not folder.is_dir():
        raise ValueError(f"must be a folder of the repository, got {guardrail.config!r}")
    found: dict[str, str] = {}
    for file in sorted(folder.iterdir()):
        if file.name.startswith((".", "__")):
            continue
        if file.is_dir():
            raise ValueError(f"must have no folders inside, got {file.name!r}")
        try:
            found[file.name] = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise ValueError(f"must have files of text only, got {file.name!r}") from None
    return found
