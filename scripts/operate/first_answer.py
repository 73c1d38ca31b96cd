"""The answer at the end of `up`: text of the first text model of the stack, or another one."""

import time
from pathlib import Path
from typing import Final

from infra.plan import Plan
from infra.stack import Task
from scripts.client_keys.permissions import unaskable
from scripts.shared.model_client import (
    generate_images,
    generate_video,
    open_client,
    wait_for_answer,
)
from scripts.terminal.console import CommandError
from scripts.terminal.options import stack_of
from twin.engines.image_pipeline import DIFFUSION
from twin.engines.real import install

_PROMPT = "Say in one sentence what an inference gateway is for."
_IMAGE_PROMPT = "A red bicycle"
_ENDINGS: Final = {Task.IMAGE: "png", Task.VIDEO: "mp4"}
GENERATING: Final = (Task.GENERATE, *_ENDINGS)
"""Tasks in the order in which `up` prefers their models; then come all others."""


def first_model(plan: Plan) -> str | None:
    """Return the model that `up` asks, of those that a team may ask; None if there is none.

    It is the first one that generates text, otherwise images, otherwise videos, otherwise any.
    """
    models = plan.platform.models
    refused = unaskable(plan, models)
    asked = {name: model.task for name, model in models.items() if name not in refused}
    preferred = (name for task in GENERATING for name, has in asked.items() if has is task)
    return next(preferred, next(iter(asked), None))


def unasked(plan: Plan) -> list[str]:
    """Return the models that no team of clients may ask and that the gate does not ask itself."""
    cache = None if plan.clients is None else plan.clients.settings.cache
    own = None if cache is None else cache.embeddings
    return [name for name in unaskable(plan, plan.platform.models) if name != own]


def first_answer(plan: Plan, model: str, endpoint: str, folder: Path, timeout: float) -> list[str]:
    """Return the answer of a model, as lines for the user; retry until it arrives.

    Args:
        plan: The stack.
        model: Model to ask.
        endpoint: URL of the gateway.
        folder: Folder for an image or a video.
        timeout: Maximum wait, in seconds.

    Raises:
        CommandError: No answer came in time.
    """
    task = plan.platform.models[model].task
    if task is Task.GENERATE:
        answer = wait_for_answer(endpoint, model, _PROMPT, timeout)
        took = f"first token after {answer.first_token_seconds * 1000:.0f} ms"
        line = f"[bold]{model}[/bold] [dim]({answer.served_by})[/dim]: {answer.text.strip()}"
        return [line, f"[dim]{took}[/dim]"]
    until = time.monotonic() + timeout
    while True:
        try:
            if task not in _ENDINGS:
                return [f"[bold]{model}[/bold]: {_judged(endpoint, model, task)}"]
            content = _generated(endpoint, model, task, timeout)
            break
        except CommandError as error:
            if time.monotonic() > until:
                what = task.value if task in _ENDINGS else "answer"
                raise CommandError(f"no {what} within {timeout:.0f} s: {error}") from error
            time.sleep(0.2)
    file = folder / f"{model}.{_ENDINGS[task]}"
    file.write_bytes(content)
    return [f"[bold]{model}[/bold]: {_IMAGE_PROMPT}: {file}"]


def _generated(endpoint: str, model: str, task: Task, timeout: float) -> bytes:
    if task is Task.VIDEO:
        return generate_video(endpoint, model, _IMAGE_PROMPT, timeout=timeout)
    return generate_images(endpoint, model, _IMAGE_PROMPT)[0].file


def _judged(endpoint: str, model: str, task: Task) -> str:
    """Return what a model that generates nothing answers, such as a vector.

    Raises:
        CommandError: The gateway or the model refuses, or the answer is not of this task.
    """
    # HTTP clients take a second to load, and `up` starts without them
    from scripts.accept.answers import question_of  # noqa: PLC0415
    from scripts.accept.row import Subject  # noqa: PLC0415

    kind, predicted, ask = question_of(task)
    with open_client(endpoint, model) as client:
        row = ask(Subject(kind, model, predicted), client, model)
    if row.is_failure:
        raise CommandError(f"{model}: must answer with {predicted}, got {row.measured}")
    return row.measured


def check_installed(stack: str, model: str) -> None:
    """Check that the requirements of a real replica of a model are installed.

    Raises:
        CommandError: The model has no real replica on this machine.
        twin.toolchain.ToolError: One is missing; the message names the command that installs it.
    """
    served = stack_of(stack).models.get(model)
    if served is not None and served.task is Task.VIDEO:
        raise CommandError(f"--real-engine: must not be a model of task video, got {model!r}")
    if served is not None and served.task in _ENDINGS:
        DIFFUSION.python()
    else:
        install.python()
