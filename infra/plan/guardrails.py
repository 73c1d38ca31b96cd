"""Guardrails in use on a platform, and the files of those with a custom configuration."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra.stack import Guardrail, GuardrailKind, Platform

ROOT: Final = Path(__file__).resolve().parents[2]
"""Root of the repository, to which `guardrails.NAME.config` is relative."""
_ARMOR, _NEMO = GuardrailKind.MODEL_ARMOR, GuardrailKind.NEMO
_ARMOR_TIMEOUT_MS: Final = 1000
_NEMO_TIMEOUT_MS: Final = 2000


@dataclass(frozen=True)
class GuardrailsPlan:
    """The guardrails that a model or team of a stack references, in stack order."""

    armor: Mapping[str, Guardrail]
    """Guardrails of Model Armor, which the gateways call, by name."""
    guards: Mapping[str, Guardrail]
    """Guardrails that run in the clusters and that the gates of clients call, by name."""
    replicas: Mapping[str, int]
    """Replicas of each of these in a region."""
    floor: Guardrail | None
    """The guardrail whose filters are the project's floor."""

    @property
    def needs_armor(self) -> bool:
        """Whether the project must be prepared for Model Armor."""
        return bool(self.armor) or self.floor is not None


def guardrails_in_use(platform: Platform) -> set[str]:
    """Return the names of guardrails that models, teams or the front's router have."""
    teams = {} if platform.clients is None else platform.clients.teams
    router = platform.gateway.front_router
    named = {
        name for user in (*platform.models.values(), *teams.values()) for name in user.guardrails
    }
    return named if router is None or router.guardrail is None else named | {router.guardrail}


def resolve_guardrails(platform: Platform) -> GuardrailsPlan:
    """Return the guardrails of a stack that are in use."""
    named = guardrails_in_use(platform)
    used = {name: each for name, each in platform.guardrails.items() if name in named}
    usual = platform.usual_replicas()
    guards = {name: each for name, each in used.items() if each.kind is _NEMO}
    return GuardrailsPlan(
        armor={name: each for name, each in used.items() if each.kind is _ARMOR},
        guards=guards,
        replicas={name: each.replicas or usual for name, each in guards.items()},
        floor=next((each for each in platform.guardrails.values() if each.floor), None),
    )


def timeout_ms(guardrail: Guardrail) -> int:
    """Return the maximum time to wait for a guardrail's verdict, in milliseconds."""
    usual = _ARMOR_TIMEOUT_MS if guardrail.kind is _ARMOR else _NEMO_TIMEOUT_MS
    return guardrail.timeout_ms or usual


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
    rails: dict[str, str] = {}
    for file in sorted(folder.iterdir()):
        if file.name.startswith((".", "__")):
            continue
        if file.is_dir():
            raise ValueError(f"must have no folders inside, got {file.name!r}")
        try:
            rails[file.name] = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise ValueError(f"must have files of text only, got {file.name!r}") from None
    return rails
