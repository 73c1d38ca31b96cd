"""`gke-inference env`: the environment in which `pulumi` and `kubectl` use the twin."""

import os
import shlex

from infra.reading.load import stack_names
from scripts.shared.engine import Engine, OfficialOption, official_to_deploy
from scripts.terminal.console import console
from twin import daemon
from twin.cluster import lifecycle as clusters
from twin.host.paths import TwinPaths
from twin.pulumi.official import OfficialPlugins


def env(official: OfficialOption = False) -> None:
    """Print shell exports that make `pulumi` and `kubectl` use the twin.

    Run `eval "$(gke-inference env)"`. `kubectl` gets one context for each cluster that exists now.
    """
    console.stderr = True  # the shell evaluates what goes to standard output
    try:
        found = _exports(TwinPaths.default(), official_to_deploy(official))
    finally:
        console.stderr = False
    for name, value in found.items():
        print(f"export {name}={shlex.quote(value)}")


def _exports(paths: TwinPaths, official: OfficialPlugins | None) -> dict[str, str]:
    if daemon.ports(paths) is None:
        console.print(
            "The twin is not running: starting it, without clusters. `make down` stops it."
        )
    engine = Engine(paths, official=official)
    for stack in stack_names():
        engine.ensure_stack(stack)  # so that `pulumi preview -s NAME` finds each of them
    exports = dict(engine.environment)
    folders = clusters.folders(paths)
    if folders:
        exports["KUBECONFIG"] = os.pathsep.join(str(folder / "kubeconfig") for folder in folders)
    return exports
