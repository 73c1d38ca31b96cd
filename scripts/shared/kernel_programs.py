"""Runs the programs of `workloads/kernels` in the environment that has JAX."""

import subprocess

from scripts.terminal.console import CommandError, one_line
from twin.toolchain.python_environments import XLA, xla_environment


def run_kernels(*argv: str, given: str = "", on_tpu: bool = False) -> str:
    """Run `python -m kernels` in the environment with JAX, and return its output.

    Args:
        argv: Arguments of the program.
        given: Standard input of the program.
        on_tpu: Whether JAX may use this machine's TPU.

    Raises:
        CommandError: The program failed; holds its last error.
        twin.toolchain.ToolError: JAX is not installed.
    """
    environment = xla_environment()
    if on_tpu:
        del environment["JAX_PLATFORMS"]
    answer = subprocess.run(
        [XLA.python(), "-m", "kernels", *argv],
        input=given,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    if answer.returncode:
        lines = [line for line in answer.stderr.splitlines() if line.startswith("error: ")]
        reason = lines[-1].removeprefix("error: ") if lines else one_line(answer.stderr[-3000:])
        raise CommandError(reason)
    return answer.stdout
