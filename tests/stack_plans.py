"""The plan of every model of every stack that is shipped."""

from collections.abc import Iterator
from typing import Any

from gke_inference.rungs import checked_input
from infra import assemble_models
from infra.load import STACKS, read
from workloads.model_plan import ModelPlan, model_plan


def plans_of_stacks() -> Iterator[tuple[str, ModelPlan]]:
    """Where each is from (stack, region, model), and the plan."""
    for file in sorted(STACKS.glob("Pulumi.*.yaml")):
        stack = file.name.split(".")[1]
        platform = read(stack)
        for name, model in platform.models.items():
            for region in platform.regions_of(model):
                args: Any = assemble_models.server_args(platform, name, region)
                rungs = [checked_input(rung, "rung") for rung in args["rungs"]]
                yield f"{stack} {region} {name}", model_plan(args, rungs)
