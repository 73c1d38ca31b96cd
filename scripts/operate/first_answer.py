"""The answer at the end of `up`: text of the first text model of the stack, or an image."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.stack import Engine
from scripts.shared.model_client import generate_images, wait_for_answer
from scripts.terminal.console import CommandError
from scripts.terminal.options import stack_of
from twin.engines.image_pipeline import DIFFUSION
from twin.engines.real import install

_PROMPT = "Say in one sentence what an inference gateway is for."
_IMAGE_PROMPT = "A red bicycle"


@dataclass(frozen=True)
class First:
    """The answer of the first model."""

    model: str
    lines: list[str]
    """Lines for the user."""


def first_answer(outputs: dict[str, Any], endpoint: str, folder: Path, timeout: float) -> First:
    """Return the answer of the stack's first model; retry until it arrives.

    Args:
        outputs: Outputs of the stack.
        endpoint: URL of the gateway.
        folder: Folder for an image.
        timeout: Maximum wait, in seconds.

    Raises:
        CommandError: The stack has no model to ask, or no answer came in time.
    """
    model = _image_model(outputs)
    if model is None:
        model = chat_model(outputs)
        answer = wait_for_answer(endpoint, model, _PROMPT, timeout)
        took = f"first token after {answer.first_token_seconds * 1000:.0f} ms"
        line = f"[bold]{model}[/bold] [dim]({answer.served_by})[/dim]: {answer.text.strip()}"
        return First(model, [line, f"[dim]{took}[/dim]"])
    until = time.monotonic() + timeout
    while True:
        try:
            image = generate_images(endpoint, model, _IMAGE_PROMPT)[0]
            break
        except CommandError as error:
            if time.monotonic() > until:
                raise CommandError(f"no image within {timeout:.0f} s: {error}") from error
            time.sleep(0.2)
    file = folder / f"{model}.png"
    file.write_bytes(image.file)
    return First(model, [f"[bold]{model}[/bold]: {_IMAGE_PROMPT}: {file}"])


def chat_model(outputs: dict[str, Any]) -> str:
    """Return the first model of a stack that generates text.

    Raises:
        CommandError: There is none.
    """
    for name, facts in outputs["models"].items():
        if facts.get("task", "generate") == "generate":
            return name
    raise CommandError("models: must have one with task generate or image, got none")


def _image_model(outputs: dict[str, Any]) -> str | None:
    """Return the first model that generates images, if none generates text."""
    tasks = {name: facts.get("task", "generate") for name, facts in outputs["models"].items()}
    if "generate" in tasks.values():
        return None
    return next((name for name, task in tasks.items() if task == "image"), None)


def check_installed(stack: str, model: str) -> None:
    """Check that the requirements of a real replica of a model are installed.

    Raises:
        twin.toolchain.ToolError: One is missing; the message names the command that installs it.
    """
    served = stack_of(stack).models.get(model)
    if served is not None and served.engine is Engine.DIFFUSION:
        DIFFUSION.python()
    else:
        install.python()
