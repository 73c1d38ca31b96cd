"""`gke-inference env`: the environment in which plain `pulumi` and `kubectl` work on the twin."""

import os
import shlex
import sys

from scripts.console import console
from scripts.engine import Engine, stack_names
from twin import clusters, daemon
from twin.paths import TwinPaths


def env() -> None:
    """Print shell exports with which plain `pulumi` and `kubectl` work on the twin.

    Use: `eval "$(gke-inference env)"`. `kubectl` sees the clusters there are now, one context each.
    """
    console.file = sys.stderr  # the shell evaluates what goes to standard output
    paths = TwinPaths.default()
    if daemon.ports(paths) is None:
        console.print("No twin runs: starting one, without clusters. `make down` ends it.")
    engine = Engine(paths)
    for stack in stack_names():
        engine.ensure_stack(stack)  # so that `pulumi preview -s NAME` finds each of them
    exports = dict(engine.environment)
    folders = clusters.folders(paths)
    if folders:
        exports["KUBECONFIG"] = os.pathsep.join(str(folder / "kubeconfig") for folder in folders)
    for name, value in exports.items():
        print(f"export {name}={shlex.quote(value)}")
