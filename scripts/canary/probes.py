"""Quality probes: prompts with an expected answer, asked of both versions before the first step.

Both versions answer at temperature 0. A probe is lost if the stable version answers as expected and
the canary does not.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from gke_inference.catalogue.input_error import UNSAID
from gke_inference.catalogue.user_yaml import user_yaml
from scripts.shared.model_client import open_client
from scripts.terminal.console import CommandError, one_line

_WAITS_SECONDS = (0.0, 1.0, 4.0)
"""Waits before each try of a request that was refused for the moment."""
_TRANSIENT = re.compile(r"\bHTTP (429|503)\b")
_SHOWN = 120
"""Characters of a prompt or answer in the output."""


class Probe(BaseModel):
    """A prompt, and a regular expression that is found in a good answer."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    prompt: str = Field(min_length=1)
    expect: str = Field(min_length=1)
    max_tokens: int = Field(default=256, ge=1, le=4096)

    @field_validator("expect")
    @classmethod
    def _is_expression(cls, value: str) -> str:
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"must be a regular expression: {error}") from None
        return value

    def accepts(self, reply: "Reply") -> bool:
        """Return whether a reply is as expected."""
        return not reply.refusal and re.search(self.expect, reply.text) is not None


@dataclass(frozen=True)
class Reply:
    """What a version answers to a probe."""

    text: str
    refusal: str = ""
    """Reason why there is no answer."""

    def __str__(self) -> str:
        """Return the beginning of the answer, or the refusal."""
        return self.refusal or repr(one_line(self.text)[:_SHOWN])


Ask = Callable[[Probe, str], Reply]
"""Returns the reply of a version to a probe."""


@dataclass(frozen=True)
class Lost:
    """A probe that the stable version passes and the canary does not."""

    probe: Probe
    reply: Reply
    """Reply of the canary."""

    def __str__(self) -> str:
        """Return the probe and the canary's reply in one line."""
        prompt = one_line(self.probe.prompt)[:_SHOWN]
        return f"{prompt!r}: must match {self.probe.expect!r}, got {self.reply}"


@dataclass(frozen=True)
class Outcome:
    """Result of the probes."""

    compared: int
    """Probes that the stable version passes."""
    lost: tuple[Lost, ...]


def read_probes(file: Path) -> tuple[Probe, ...]:
    """Return the probes of a YAML file: a list of prompts with `expect`.

    Raises:
        CommandError: The file cannot be read, or a probe is wrong; names the field.
    """
    try:
        content: Any = user_yaml(file.read_text())
    except OSError as error:
        raise CommandError(f"--probes: {file}: {error.strerror}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise CommandError(f"--probes: {file}: must be YAML: {one_line(str(error))}") from None
    if not isinstance(content, list) or not content:
        raise CommandError(f"--probes: {file}: must be a list of one probe or more")
    try:
        return tuple(TypeAdapter(list[Probe]).validate_python(content))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        at = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        got = first.get("input", UNSAID)
        raise CommandError(f"--probes: {file}: {at}: {message}, got {got!r}") from None


def compare_probes(probes: tuple[Probe, ...], canary: str, stable: str, ask: Ask) -> Outcome:
    """Ask both versions, and return the probes that only the stable version passes.

    Args:
        probes: Probes to ask.
        canary: Name of the canary's version.
        stable: Name of the other version.
        ask: Function that asks one version.

    Raises:
        CommandError: The stable version refuses a probe, or passes none, so that the canary cannot
            lose one.
    """
    replies = {probe: ask(probe, stable) for probe in probes}
    refused = [reply for reply in replies.values() if reply.refusal]
    if refused:
        rule = "must be answered by the stable version"
        raise CommandError(
            f"--probes: {rule}, got {len(refused)} refusals; the last: {refused[-1]}"
        )
    passed = [probe for probe, reply in replies.items() if probe.accepts(reply)]
    if not passed:
        rule = "must have a probe that the stable version passes"
        *_, last = replies.values()
        raise CommandError(f"--probes: {rule}, got none of {len(probes)}; the last reply: {last}")
    asked = [Lost(probe, ask(probe, canary)) for probe in passed]
    lost = [one for one in asked if not one.probe.accepts(one.reply)]
    return Outcome(len(passed), tuple(lost))


def asker(
    endpoint: str, model: str, header: str, sleep: Callable[[float], None] = time.sleep
) -> Ask:
    """Return a function that asks a version of a model through the gateway.

    Args:
        endpoint: URL of the gateway.
        model: Name of the model.
        header: Header that selects the version.
        sleep: Function that waits before a request is repeated.
    """

    def ask(probe: Probe, version: str) -> Reply:
        refusal = ""
        for wait in _WAITS_SECONDS:
            sleep(wait)
            try:
                with open_client(endpoint, model) as client:
                    answer: Any = client.chat.completions.create(
                        model=model,
                        messages=[{"role": "user", "content": probe.prompt}],
                        max_tokens=probe.max_tokens,
                        temperature=0,
                        extra_headers={header: version},
                    )
                return Reply(answer.choices[0].message.content or "")
            except CommandError as error:
                refusal = str(error)
                if not _TRANSIENT.search(refusal):
                    break
            except (AttributeError, IndexError, TypeError):
                return Reply("", f"{model}: must be a chat completion, got another document")
        return Reply("", refusal)

    return ask
