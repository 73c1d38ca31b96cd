"""`gke-inference env`: the environment in which plain `pulumi` works on the twin."""

import shlex
import sys

from scripts.console import console
from scripts.engine import Engine, stack_names
from twin.paths import TwinPaths


def env() -> None:
    """Print shell exports: after `eval "$(gke-inference env)"` plain `pulumi` works on the twin."""
    console.file = sys.stderr  # the shell evaluates what goes to standard output
    engine = Engine(TwinPaths.default())
    for stack in stack_names():
        engine.ensure_stack(stack)  # so that `pulumi preview -s NAME` finds each of them
    for name, value in engine.environment.items():
        print(f"export {name}={shlex.quote(value)}")
