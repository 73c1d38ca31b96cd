"""What `pulumi up` runs: the stack, read and checked, becomes a platform."""

import gc
import sys
from pathlib import Path

import pulumi

# What is imported and registered stays until the end, so that collecting finds nothing. It is off
# before the imports: they make a million objects.
gc.disable()
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from infra.platform_reference import Reference  # noqa: E402 - the reason above
from infra.reading.load import PROJECT, WITH_DELIVERED, load  # noqa: E402 - the reason above
from infra.stack.problems import StackError  # noqa: E402 - the reason above

reference = Reference()
try:
    stack = load(reference.settings)
except StackError as error:
    # The engine shows this as it is, without a traceback, and nothing is registered.
    file = f"Pulumi.{pulumi.get_stack()}.yaml"
    raise pulumi.RunError(
        "\n".join(f"{file}: {problem.sentence()}" for problem in error.problems)
    ) from None
if reference.shared is None:
    from infra.program import deploy

    deploy(stack)
else:  # what makes clusters and networks takes longest to load, and a serving stack makes none
    from infra.team_program import deploy_team

    wanted = pulumi.Config(PROJECT).get_bool(WITH_DELIVERED) or False
    deploy_team(stack, reference.shared, with_delivered=wanted)
