"""The platform of a serving stack, up on the twin or planned from its file."""

import json
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gke_inference.catalogue.problems import one_of
from infra.plan import resolve
from infra.reading.layers import is_serving
from infra.reading.load import PROJECT, STACKS, platform_of, read, stack_names, teams_of
from infra.reading.platform_reference import OUTPUT, planned
from infra.stack import Layer
from infra.stack.layers import platform_name
from infra.stack.problems import StackError
from scripts.shared.engine import Engine
from scripts.shared.stack_resource import STACK_TYPE
from scripts.terminal.console import CommandError
from twin.pulumi.environment import NO_CLUSTERS


def platform_of_serving(stack: str, folder: Path = STACKS) -> str | None:
    """Return the name of a serving stack's platform; None for a stack of another layer.

    Raises:
        StackError: The stack cannot be read, or its platform has no file in the folder.
    """
    document = platform_of(folder / f"Pulumi.{stack}.yaml")
    if not is_serving(document):
        return None
    name = platform_name(str(document.get("platform")))
    if name not in stack_names(folder):
        raise StackError([one_of("platform", name, stack_names(folder))])
    return name


def seed_platform(state: Path, stack: str, folder: Path = STACKS, endpoint: str = "") -> None:
    """Write a planned state of a serving stack's platform, for a preview.

    Stacks of other layers need none.

    Args:
        state: Folder of Pulumi's state, which already has the stack.
        stack: Name of the stack.
        folder: Folder of the stack files.
        endpoint: Endpoint of substitute control planes, if any.

    Raises:
        StackError: A stack cannot be read.
    """
    name = platform_of_serving(stack, folder)
    if name is None:
        return
    plan = resolve(read(name, folder))
    clusters = {region: each.cluster_name for region, each in plan.regions.items()}
    outputs = {OUTPUT: planned(plan.platform, clusters, endpoint)}
    urn = f"urn:pulumi:{name}::{PROJECT}::{STACK_TYPE}::{PROJECT}-{name}"
    write_state(state, name, {"urn": urn, "custom": False, "type": STACK_TYPE, "outputs": outputs})


def write_state(state: Path, stack: str, *resources: dict[str, Any]) -> None:
    """Write a stack's state in Pulumi's file format, because `pulumi stack init` takes a second.

    Format: github.com/pulumi/pulumi, pkg/backend/diy (v3.250.0).
    """
    manifest = {"time": "2026-01-01T00:00:00Z", "magic": "", "version": ""}
    checkpoint = {
        "stack": f"organization/{PROJECT}/{stack}",
        "latest": {"manifest": manifest, "resources": list(resources)},
    }
    file = state / ".pulumi" / "stacks" / PROJECT / f"{stack}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"version": 3, "checkpoint": checkpoint}))
    (state / ".pulumi" / "meta.yaml").write_text("version: 1\n")


@contextmanager
def with_platform(engine: Engine, stack: str) -> Generator[dict[str, str]]:
    """Yield the environment variables with which a preview finds the platform of a stack.

    If the platform is up, none are needed. Otherwise nothing of the stack is up, and the preview
    uses a separate state.

    Raises:
        CommandError: The stack cannot be read, or Pulumi refuses.
    """
    try:
        name = platform_of_serving(stack)
        if name is None:
            yield {}
            return
        light = {NO_CLUSTERS: "1"}
        if OUTPUT in engine.outputs_of(name):
            yield light
            return
        with tempfile.TemporaryDirectory() as folder:
            write_state(Path(folder), stack)
            seed_platform(Path(folder), stack)
            yield {**light, "PULUMI_BACKEND_URL": f"file://{folder}"}
    except StackError as error:
        raise CommandError(str(error)) from None


def check_platform_is_up(engine: Engine, stack: str) -> None:
    """Check that the platform of a serving stack is up on the twin.

    Raises:
        CommandError: It is not; the message names the platform.
    """
    name = platform_of_serving(stack)
    if name is not None and OUTPUT not in engine.outputs_of(name):
        raise CommandError(
            f"--stack: must be a serving stack whose platform is up, got {stack!r}; run make up"
            f" STACK={name}"
        )


def serving_stacks_up(engine: Engine, stack: str) -> list[str]:
    """Return the serving stacks of a platform with resources on the twin, sorted."""
    return sorted(
        name
        for name in teams_of(stack)
        if name in engine.stacks() and engine.deployment(name).get("resources")
    )


def refuse_platform(layer: Layer, stack: str) -> None:
    """Check that a stack has its own models, for commands about models.

    Raises:
        CommandError: It is a platform; the message names its serving stacks.
    """
    if layer is Layer.PLATFORM:
        serving = ", ".join(teams_of(stack)) or "none"
        raise CommandError(
            f"--stack: must have models, got {stack!r}: a platform's are in its serving stacks"
            f" ({serving})"
        )
