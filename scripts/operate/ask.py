"""`gke-inference ask`: sends a prompt to a model through the gateway."""

import re
import socket
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from infra.stack import Exposure
from scripts.backend.choose import open_backend
from scripts.backend.twin import not_up
from scripts.shared.hosts import host_of, lead_again
from scripts.shared.model_client import (
    DEFAULT_TIMEOUT_SECONDS,
    VIDEO_TIMEOUT_SECONDS,
    generate_images,
    generate_video,
    stream_chat,
)
from scripts.shared.platform_state import refuse_platform
from scripts.terminal.console import CommandError, console
from scripts.terminal.options import StackOption, stack_of
from scripts.terminal.output_files import check_folder
from scripts.terminal.where import OnOption, Where
from twin.host.paths import TwinPaths

_CONNECT_SECONDS = 5
_MAX_TOKENS = 256
_SIZE = re.compile("auto|[1-9][0-9]*x[1-9][0-9]*")


def ask(
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="Prompt for the model.")],
    model: Annotated[
        str, typer.Option(help="Model or adapter. Default: the first model of the stack.")
    ] = "",
    image: Annotated[
        bool, typer.Option("--image", help="Generate images instead of text.")
    ] = False,
    input_file: Annotated[
        Path | None,
        typer.Option("--input", help="Image to change, a PNG, JPEG or WebP file; needs --image."),
    ] = None,
    mask: Annotated[
        Path | None,
        typer.Option(help="PNG file whose transparent pixels are changed; needs --input."),
    ] = None,
    video: Annotated[
        bool, typer.Option("--video", help="Generate a video instead of text.")
    ] = False,
    stack: StackOption = "local",
    on: OnOption = Where.TWIN,
    count: Annotated[
        int, typer.Option("--count", "-n", min=1, help="Number of images to generate.")
    ] = 1,
    size: Annotated[
        str, typer.Option(help="Size, such as 1024x1024; auto: the model's own.")
    ] = "auto",
    seed: Annotated[int | None, typer.Option(help="Seed of the first image or video.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path(),
    timeout: Annotated[
        float | None,
        typer.Option(
            min=1,
            max=86_400,
            help="Maximum wait for the next data, in seconds. Default: 60, or 3600 for a video.",
        ),
    ] = None,
) -> None:
    """Ask a model of a stack through the gateway. Images are saved as PNG files, videos as MP4."""
    if image and video:
        raise CommandError("--video: must be omitted with --image")
    if input_file is not None and not image:
        raise CommandError("--input: must be omitted without --image")
    if mask is not None and input_file is None:
        raise CommandError("--mask: must be omitted without --input")
    if video and count != 1:
        raise CommandError(f"--count: must be 1 with --video, got {count}")
    if image or video:
        check_folder("--out", out)
        if not _SIZE.fullmatch(size):
            raise CommandError(f"--size: must be auto or a size such as 1024x1024, got {size!r}")
    refuse_platform(stack_of(stack).layer, stack)
    endpoint = (
        _cloud_endpoint(stack)
        if on.is_cloud
        else endpoint_of(stack, TwinPaths.default().root.parent)
    )
    if timeout is None:
        timeout = VIDEO_TIMEOUT_SECONDS if video else DEFAULT_TIMEOUT_SECONDS
    task = "image" if image else "video" if video else "generate"
    model = model or _first_model(stack, task)
    if task == "generate":
        answer = stream_chat(endpoint, model, prompt, max_tokens=_MAX_TOKENS, timeout=timeout)
        console.print(answer.text.strip(), markup=False)
        return
    out.mkdir(parents=True, exist_ok=True)
    if video:
        own = None if size == "auto" else size
        file = generate_video(endpoint, model, prompt, size=own, seed=seed, timeout=timeout)
        path = out / (f"{model}.mp4" if seed is None else f"{model}-{seed}.mp4")
        path.write_bytes(file)
        console.print(str(path), markup=False, soft_wrap=True)
        return
    for generated in generate_images(
        endpoint,
        model,
        prompt,
        count=count,
        image=_read("--input", input_file),
        mask=_read("--mask", mask),
        size=size,
        seed=seed,
        timeout=timeout,
    ):
        path = out / f"{model}-{generated.seed}.png"
        path.write_bytes(generated.file)
        console.print(str(path), markup=False, soft_wrap=True)


def _read(option: str, file: Path | None) -> bytes | None:
    """Return the content of a file.

    Raises:
        CommandError: It cannot be read.
    """
    try:
        return None if file is None else file.read_bytes()
    except OSError as error:
        raise CommandError(f"{option}: {file}: {error.strerror or error}") from error


def endpoint_of(stack: str, folder: Path) -> str:
    """Return the URL of a stack's gateway that accepts connections.

    Args:
        stack: Name of the stack.
        folder: Folder in which `up` writes a folder per stack.

    Raises:
        CommandError: The stack is not up: there is no URL, or nothing listens there.
    """
    file = folder / stack / "endpoint"
    if file.exists():
        endpoint = file.read_text().strip()
        lead_again(file.with_name("address"), endpoint)
        if not _connection_problem(endpoint):
            return endpoint
    raise not_up(stack)


def _cloud_endpoint(stack: str) -> str:
    """Return the URL of a stack's gateway in Google Cloud that accepts connections.

    Raises:
        CommandError: The stack is not up there, or this machine cannot reach it.
    """
    with open_backend(stack, cloud=True) as backend:
        endpoint = backend.endpoint()
    problem = _connection_problem(endpoint)
    if problem:
        where = "an internal gateway answers only in its network"
        is_internal = stack_of(stack).gateway.exposure is Exposure.INTERNAL
        raise CommandError(f"{endpoint}: {problem}" + (f"; {where}" if is_internal else ""))
    return endpoint


def _connection_problem(endpoint: str) -> str:
    """Return why a connection to a URL fails; empty if it succeeds."""
    url = urlsplit(endpoint)
    port = url.port or (443 if url.scheme == "https" else 80)
    try:
        known = host_of(endpoint)
        address = url.hostname if known is None else known.address
        socket.create_connection((address, port), _CONNECT_SECONDS).close()
    except OSError as error:
        return f"cannot be reached from here: {error.strerror or error}"
    return ""


def _first_model(stack: str, task: str) -> str:
    for name, model in stack_of(stack).models.items():
        if model.task.value == task:
            return name
    raise CommandError(f"--model: is required: stack {stack!r} has no model with task {task!r}")
