"""`gke-inference tools`: build what the twin runs."""

from typing import Annotated

import typer

from scripts.console import console, ensure_tools, step
from scripts.options import check_one
from twin.engines.image_pipeline import DIFFUSION
from twin.engines.real.install import VLLM
from twin.host.python_environments import XLA, PythonEnvironment
from twin.toolchain import modules, official

ENVIRONMENTS: dict[str, PythonEnvironment] = {one.word: one for one in (DIFFUSION, VLLM, XLA)}
"""What `--with` may say."""


def tools(
    extra: Annotated[
        str,
        typer.Option(
            "--with",
            help="Also install: vllm (the real engine, 6 GiB), diffusion (the real image pipeline,"
            " 7 GiB), xla (JAX, the TPU compiler; 1 GiB).",
        ),
    ] = "",
) -> None:
    """Build the tools that this machine lacks and list them; finished ones are kept."""
    if extra:
        check_one("--with", extra, ENVIRONMENTS)
    ensure_tools()
    for module in modules().values():
        stands_in = [name for name in module.programs if official(name)]
        where = "official, on PATH" if stands_in and not module.built() else "built"
        console.print(f"{module.name:<18}{module.version:<10}{where}")
    if extra:
        install(ENVIRONMENTS[extra])
    for one in ENVIRONMENTS.values():
        if one.is_installed:
            console.print(f"{one.package:<18}{one.version:<10}{one.folder}")


def install(environment: PythonEnvironment) -> None:
    """Install an environment where it is missing, saying what is going on: it may take minutes."""
    if environment.is_installed:
        return
    with step(f"Installing {environment.title}"):
        environment.install(lambda doing: console.print(f"  {environment.package}: {doing}"))
