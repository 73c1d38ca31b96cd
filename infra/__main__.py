"""What `pulumi up` runs: the stack, read and checked, becomes a platform."""

import sys
from pathlib import Path

import pulumi

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from infra.program import deploy
from infra.reading.load import load
from infra.stack.problems import StackError

try:
    stack = load()
except StackError as error:
    # The engine shows this as it is, without a traceback, and nothing is registered.
    file = f"Pulumi.{pulumi.get_stack()}.yaml"
    raise pulumi.RunError(
        "\n".join(f"{file}: {problem.sentence()}" for problem in error.problems)
    ) from None
deploy(stack)
