"""`gke-inference tools`: obtain what the twin runs, and lock the official binaries."""

from typing import Annotated

import typer

from scripts.check.checkov_environment import CHECKOV
from scripts.develop.tools_lock import lock_tools
from scripts.shared.tool_setup import ensure_environment, obtain_modules
from scripts.terminal.console import CommandError
from scripts.terminal.exit_codes import ExitCode
from scripts.terminal.options import check_one, check_words
from scripts.terminal.tables import Column, Listing, print_table
from twin.engines.embeddings import WORDLLAMA
from twin.engines.image_pipeline import DIFFUSION
from twin.engines.optimization import EVALUATION, OPTIMIZATION
from twin.engines.pipelines import PIPELINES
from twin.engines.real.install import SGLANG, VLLM
from twin.toolchain import Module, is_cached, modules, origin_of, usual_modules
from twin.toolchain.python_environments import GUARDRAILS, XLA, PythonEnvironment

ENVIRONMENTS: dict[str, PythonEnvironment] = {
    one.word: one
    for one in (
        CHECKOV,
        DIFFUSION,
        EVALUATION,
        GUARDRAILS,
        OPTIMIZATION,
        PIPELINES,
        SGLANG,
        VLLM,
        WORDLLAMA,
        XLA,
    )
}
"""Values of `--with`."""

tools = typer.Typer()


@tools.callback(invoke_without_command=True)
def tools_group(
    context: typer.Context,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Obtain only this tool module; repeat for several. Default: all."),
    ] = None,
    extra: Annotated[
        str,
        typer.Option(
            "--with",
            help="Also install: checkov (a scanner of Kubernetes objects, 200 MB), diffusion (the"
            " real image pipeline, 7 GiB), embeddings (for `bench cache`, 100 MB), evaluation"
            " (lm-evaluation-harness, 200 MB), guardrails (NeMo Guardrails, 230 MiB), optimization"
            " (LLM Compressor and PEFT, 6 GiB), pipelines (Apache Beam, 800 MB), sglang (the parser"
            " of its arguments; vllm and 50 MiB), vllm (the real engine, 6 GiB), xla (JAX, the TPU"
            " compiler; 1 GiB).",
        ),
    ] = "",
) -> None:
    """Obtain missing tools, as official binaries or built from source, and list all tools."""
    if context.invoked_subcommand is not None:
        if only or extra:
            raise CommandError("--only, --with: must not be used with tools lock")
        return
    names = check_words("--only", only, modules())
    if extra:
        check_one("--with", extra, ENVIRONMENTS)
    chosen = [modules()[name] for name in names or usual_modules()]
    obtain_modules(chosen)
    if extra:
        ensure_environment(ENVIRONMENTS[extra])
    print_tools(chosen)


def print_tools(chosen: list[Module]) -> None:
    """Print tools with their versions and origins, and the installed optional environments."""
    table = Listing("TOOL", "VERSION", Column("ORIGIN", spare=1))
    for module in chosen:
        table.add_row(module.name, module.version, origin(module))
    for one in ENVIRONMENTS.values():
        if one.is_installed:
            table.add_row(one.package, one.version, str(one.folder))
    print_table(table)


@tools.command("lock")
def lock() -> None:
    """Write twin/tools/lock.yaml: the checksums of the official binaries of every platform.

    Exits 1 if a checksum could not be read; existing entries are kept.
    """
    unread = lock_tools()
    if unread:
        raise typer.Exit(ExitCode.CHECK_FAILED)


def origin(module: Module) -> str:
    """Return the origin of a module, for messages."""
    if not is_cached(module):
        return "on PATH"
    return {"release": "official binary", "source": "built from source"}.get(
        origin_of(module).get("from", ""), "built"
    )
