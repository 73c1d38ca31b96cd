"""The answer at the end of `up`: text of the first text model of the stack, or a file."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.stack import Task
from scripts.shared.model_client import generate_images, generate_video, wait_for_answer
from scripts.terminal.console import CommandError
from scripts.terminal.options import stack_of
from twin.engines.image_pipeline import DIFFUSION
from twin.engines.real import install

_PROMPT = "Say in one sentence what an inference gateway is for."
_IMAGE_PROMPT = "A red bicycle"
_ENDINGS = {"image": "png", "video": "mp4"}


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
        folder: Folder for an image or a video.
        timeout: Maximum wait, in seconds.

    Raises:
        CommandError: The stack has no model to ask, or no answer came in time.
    """
    found = _file_model(outputs)
    if found is None:
        model = chat_model(outputs)
        answer = wait_for_answer(endpoint, model, _PROMPT, timeout)
        took = f"first token after {answer.first_token_seconds * 1000:.0f} ms"
        line = f"[bold]{model}[/bold] [dim]({answer.served_by})[/dim]: {answer.text.strip()}"
        return First(model, [line, f"[dim]{took}[/dim]"])
    model, task = found
    until = time.monotonic() + timeout
    while True:
        try:
            content = _generated(endpoint, model, task, timeout)
            break
        except CommandError as error:
            if time.monotonic() > until:
                raise CommandError(f"no {task} within {timeout:.0f} s: {error}") from error
            time.sleep(0.2)
    file = folder / f"{model}.{_ENDINGS[task]}"
    file.write_bytes(content)
    return First(model, [f"[bold]{model}[/bold]: {_IMAGE_PROMPT}: {file}"])


def _generated(endpoint: str, model: str, task: str, timeout: float) -> bytes:
    if task == "video":
        return generate_video(endpoint, model, _IMAGE_PROMPT, timeout=timeout)
    return generate_images(endpoint, model, _IMAGE_PROMPT)[0].file


def chat_model(outputs: dict[str, Any]) -> str:
    """Return the first model of a stack that generates text.

    Raises:
        CommandError: There is none.
    """
    for name, facts in outputs["models"].items():
        if facts.get("task", "generate") == "generate":
            return name
    raise CommandError("models: must have one with task generate, image or video, got none")


def _file_model(outputs: dict[str, Any]) -> tuple[str, str] | None:
    """Return the first model of images or videos and its task, if none generates text."""
    tasks = {name: facts.get("task", "generate") for name, facts in outputs["models"].items()}
    if "generate" in tasks.values():
        return None
    return next((each for each in tasks.items() if each[1] in _ENDINGS), None)


def check_installed(stack: str, model: str) -> None:
    """Check that the requirements of a real replica of a model are installed.

    Raises:
        CommandError: The model has no real replica on this machine.
        twin.toolchain.ToolError: One is missing; the message names the command that installs it.
    """
    served = stack_of(stack).models.get(model)
    if served is not None and served.task is Task.VIDEO:
        raise CommandError(f"--real-engine: must not be a model of task video, got {model!r}")
    if served is not None and served.engine == "diffusion":
        DIFFUSION.python()
    else:
        install.python()
