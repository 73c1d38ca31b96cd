"""The rails of a folder, run by NeMo Guardrails on one text."""

import asyncio
import hashlib
import importlib
import os
from collections import OrderedDict
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from . import detectors

_Result = TypeVar("_Result")
PHASES: Final = ("input", "output")
ALLOW: Final = "allow"
BLOCK: Final = "block"
REPLACE: Final = "replace"
_ROLES: Final = {"input": "user", "output": "assistant"}
_INSTRUCTIONS: Final = ("system", "developer")
_FAILED: Final = "I'm sorry, an internal error has occurred."
"""Response of NeMo Guardrails if an action raised an exception; it reports the rail as blocking."""
_REMEMBERED: Final = 20_000
"""Number of digests of passed texts to keep: a conversation is sent again with each turn."""


class RailsError(Exception):
    """The rails cannot be loaded, or gave no verdict; the message is one line without the text."""


@dataclass(frozen=True)
class Text:
    """A text and where it comes from; rails see this as `$model`, `$team` and `$role`."""

    text: str
    role: str = "user"
    """Role of the message: `user`, `system`, `assistant`, `tool`, ..."""
    model: str = ""
    team: str = ""


@dataclass(frozen=True)
class Verdict:
    """Verdict of the rails on a text."""

    action: str
    text: str
    """Replacement text for the action `replace`."""
    rail: str = ""
    """Rail that blocked the text."""
    message: str = ""
    """Message of the rail to the client for the action `block`."""


class Rails:
    """The rails of one folder."""

    def __init__(self, library: Any, rails: Any, phases: tuple[str, ...]) -> None:
        self._library, self._rails = library, rails
        self.phases = phases
        """Phases that have rails."""
        self._passed: OrderedDict[bytes, None] = OrderedDict()

    @classmethod
    def load(cls, folder: Path) -> "Rails":
        """Load a folder.

        Raises:
            RailsError: The folder does not contain rails.
        """
        if not folder.is_dir():
            raise RailsError(f"--config: must be a folder, got {folder}")
        # files of a ConfigMap are links into `..data`; NeMo follows links, and would load all twice
        folder = (folder / "..data").resolve() if (folder / "..data").is_dir() else folder
        os.environ["NEMO_GUARDRAILS_NO_USAGE_STATS"] = "1"  # it reports to its maker otherwise
        library = importlib.import_module("nemoguardrails")
        try:
            config: Any = library.RailsConfig.from_path(str(folder))
            made: Any = library.LLMRails(config)
        except Exception as error:  # noqa: BLE001 - every part of NeMo raises its own
            reason = " ".join(str(error).split())[:300]
            raise RailsError(f"--config: must be rails of NeMo Guardrails: {reason}") from None
        made.register_action(_find_prompt_injection, "find_prompt_injection")
        made.register_action(_mask_personal_data, "mask_personal_data")
        phases = tuple(phase for phase in PHASES if getattr(config.rails, phase).flows)
        if not phases:
            raise RailsError(
                "--config: must have rails.input.flows or rails.output.flows, got none"
            )
        return cls(importlib.import_module("nemoguardrails.rails.llm.options"), made, phases)

    async def check(self, phase: str, asked: Text) -> Verdict:
        """Run the rails of a phase on a text.

        Raises:
            RailsError: A rail failed.
        """
        if not asked.text.strip():
            return Verdict(ALLOW, asked.text)
        parts = (phase, asked.role, asked.model, asked.team, asked.text)
        digest = hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).digest()
        if digest in self._passed:
            self._passed.move_to_end(digest)
            return Verdict(ALLOW, asked.text)
        verdict = await self._run(phase, asked)
        if verdict.action == ALLOW:
            self._passed[digest] = None
            if len(self._passed) > _REMEMBERED:
                self._passed.popitem(last=False)
        return verdict

    async def check_all(self, phase: str, texts: list[Text]) -> list[Verdict]:
        """Check texts in order, up to the first that is blocked.

        Raises:
            RailsError: A rail failed.
        """
        found: list[Verdict] = []
        for text in texts:
            found.append(await self.check(phase, text))
            if found[-1].action == BLOCK:
                break
            await asyncio.sleep(0)  # other requests and the probes have their turn
        return found

    async def _run(self, phase: str, asked: Text) -> Verdict:
        context = {"model": asked.model, "role": asked.role, "team": asked.team}
        messages: list[dict[str, Any]] = [{"role": "context", "content": context}]
        if phase == "output":
            messages.append({"role": "user", "content": ""})  # rails of answers want a question
        messages.append({"role": _ROLES[phase], "content": asked.text})
        try:
            found: Any = await self._rails.check_async(messages, [self._library.RailType(phase)])
        except Exception as error:  # noqa: BLE001 - its message may quote the text
            raise RailsError(f"a rail of {phase} failed: {type(error).__name__}") from None
        status = str(found.status.value)
        if status == "passed":
            return Verdict(ALLOW, asked.text)
        if found.content == _FAILED:
            raise RailsError(f"a rail of {phase} failed: {found.rail}")
        if status == "modified":
            return Verdict(REPLACE, str(found.content))
        return Verdict(BLOCK, "", str(found.rail or ""), str(found.content))


async def _find_prompt_injection(text: str, role: str = "user") -> bool:
    """Look for an injection, except in an application's own instructions."""
    return role not in _INSTRUCTIONS and await _result(detectors.search_prompt_injection(text))


async def _mask_personal_data(text: str) -> str:
    return await _result(detectors.masking_personal_data(text))


async def _result(steps: Generator[None, None, _Result]) -> _Result:
    """Return the result of a detector; other requests and the probes have their turn meanwhile."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value
        await asyncio.sleep(0)
