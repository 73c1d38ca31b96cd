"""The answer that ends `up`: of the stack's first model that generates text, or else a picture."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.stack import Engine
from scripts import status
from scripts.ask import draw, wait_for_answer
from scripts.console import CommandError
from scripts.options import stack_of
from twin.engines.image_pipeline import DIFFUSION
from twin.engines.real import install

_PROMPT = "Say in one sentence what an inference gateway is for."
_PICTURE = "A red bicycle"


@dataclass(frozen=True)
class First:
    """What the first model said, or drew."""

    model: str
    lines: list[str]
    """For the user."""


def first_answer(outputs: dict[str, Any], endpoint: str, folder: Path, timeout: float) -> First:
    """Ask until the first model answers.

    Args:
        outputs: of the stack.
        endpoint: of the gateway.
        folder: where a picture is saved.
        timeout: seconds.

    Raises:
        CommandError: the stack has no model to ask, or there was no answer in time.
    """
    model = _drawing_model(outputs)
    if model is None:
        model = status.chat_model(outputs)
        answer = wait_for_answer(endpoint, model, _PROMPT, timeout)
        took = f"first token after {answer.first_token_seconds * 1000:.0f} ms"
        said = f"[bold]{model}[/bold] [dim]({answer.served_by})[/dim]: {answer.text.strip()}"
        return First(model, [said, f"[dim]{took}[/dim]"])
    begun = time.monotonic()
    until = begun + timeout
    while True:
        try:
            picture = draw(endpoint, model, _PICTURE)[0]
            break
        except CommandError as error:
            if time.monotonic() > until:
                raise CommandError(f"no picture in {timeout:.0f} s: {error}") from error
            time.sleep(0.2)
    file = folder / f"{model}.png"
    file.write_bytes(picture.file)
    return First(model, [f"[bold]{model}[/bold]: {_PICTURE}: {file}"])


def _drawing_model(outputs: dict[str, Any]) -> str | None:
    """Return the first model that draws where none generates text."""
    tasks = {name: facts.get("task", "generate") for name, facts in outputs["models"].items()}
    if "generate" in tasks.values():
        return None
    return next((name for name, task in tasks.items() if task == "image"), None)


def check_installed(stack: str, model: str) -> None:
    """Check that what a real replica of a model needs is installed.

    Raises:
        twin.toolchain.ToolError: it is not; the message names the command.
    """
    served = stack_of(stack).models.get(model)
    if served is not None and served.engine is Engine.DIFFUSION:
        DIFFUSION.python()
    else:
        install.python()
