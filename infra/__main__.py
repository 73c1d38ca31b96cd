"""Entry point of `pulumi up`: loads and validates the stack and deploys the platform."""

import gc
import os
import sys
from pathlib import Path

import pulumi

# What is imported and registered stays until the end, so that collecting finds nothing. It is off
# before the imports: they make a million objects.
gc.disable()
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from infra.reading.built import (  # noqa: E402 - the reason above
    is_first_step,
    kept_outputs,
    refuse_unbuilt,
)
from infra.reading.load import PROJECT, WITH_DELIVERED, load  # noqa: E402 - the reason above
from infra.reading.platform_reference import Reference  # noqa: E402 - the reason above
from infra.stack.problems import StackError  # noqa: E402 - the reason above

reference = Reference()
try:
    is_first = is_first_step(os.environ, pulumi.get_stack())
    stack = load(reference.settings, with_digests=not is_first)
    outputs = kept_outputs(stack, os.environ) if is_first else None
    if outputs is None:
        refuse_unbuilt(stack, os.environ)
except StackError as error:
    # The engine prints this without a traceback, and registers nothing.
    file = f"Pulumi.{pulumi.get_stack()}.yaml"
    raise pulumi.RunError(
        "\n".join(f"{file}: {problem.sentence()}" for problem in error.problems)
    ) from None
if outputs is not None:
    from infra.deploy.program import deploy_images

    deploy_images(stack, outputs)
elif reference.shared is None:
    from infra.deploy.program import deploy

    deploy(stack)
else:  # cluster and network modules load slowest, and a serving stack needs none
    from infra.deploy.team_program import deploy_team

    wanted = pulumi.Config(PROJECT).get_bool(WITH_DELIVERED) or False
    deploy_team(stack, reference.shared, with_delivered=wanted)
