"""The plan of every model of every stack that is shipped."""

from collections.abc import Iterator
from typing import Any

from gke_inference.base.inputs import rung_of
from gke_inference.serving.model_plan import ModelPlan, model_plan
from infra.arguments import models as assemble_models
from infra.plan import resolve
from infra.reading.load import STACKS, read


def plans_of_stacks() -> Iterator[tuple[str, ModelPlan]]:
    """Where each is from (stack, region, model), and the plan."""
    for file in sorted(STACKS.glob("Pulumi.*.yaml")):
        stack = file.name.split(".")[1]
        platform = read(stack)
        for region in resolve(platform).regions.values():
            for served in region.served:
                if served.version is None:
                    args: Any = assemble_models.server_args(platform, served)
                    rungs = [rung_of(rung, "rung") for rung in args["rungs"]]
                    yield f"{stack} {region.name} {served.name}", model_plan(args, rungs)
