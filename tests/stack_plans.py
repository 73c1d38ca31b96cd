"""The plan of every model of every stack that is shipped, examples included."""

from collections.abc import Iterator
from typing import Any

from gke_inference.base.inputs import rung_of
from gke_inference.serving.model_plan import ModelPlan, model_plan
from gke_inference.sizing.architectures import Architecture, find_model
from infra.deploy import serving_arguments as assemble_models
from infra.plan import resolve
from infra.reading.load import read
from tests.shipped_stacks import FILES

_NAME = "--served-model-name="


def plans_of_stacks() -> Iterator[tuple[str, ModelPlan]]:
    """Where each model is from (folder, stack, region, model), and its plan."""
    for file in FILES:
        stack = file.name.split(".")[1]
        platform = read(stack, file.parent)
        for region in resolve(platform).regions.values():
            for served in region.served:
                args: Any = assemble_models.server_args(served)
                rungs = [rung_of(rung, "rung") for rung in args["rungs"]]
                where = f"{file.parent.name}/{stack} {region.name} {served.name}"
                yield where, model_plan(args, rungs)


def command_lines(engine: str) -> dict[str, list[str]]:
    """Return every command line of an engine in the stacks, by where it is from; each once."""
    found: dict[tuple[str, ...], str] = {}
    for where, plan in plans_of_stacks():
        for kind, argv in plan.arguments.items():
            if plan.serving[kind].engine == engine:
                # as the kubelet writes it for the first pod of a group
                words = tuple(word.replace("$(LWS_WORKER_INDEX)", "0") for word in argv)
                found.setdefault(words, f"{where} {kind}")
    return {where: list(argv) for argv, where in found.items()}


def model_of(argv: list[str]) -> Architecture:
    """Return the model that a command line of an engine serves."""
    name = next(each for each in argv if each.startswith(_NAME)).removeprefix(_NAME)
    found = find_model(argv[0].partition("=")[2] or argv[0], name)
    assert found is not None, name
    return found
