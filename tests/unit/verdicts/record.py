"""Records what the real engine says of one change, for the tests of this folder.

`python -m tests.unit.verdicts.record` runs the stack `local` as it is against one with another
machine type, another way to its control plane, a longer context and a model more, and writes
recorded.jsonl: a step a line, of the resources of the types below, without outputs. What stays the
same has its new state only. A test of the real engine reports when it must be run again.
"""

import json
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from scripts.shared.scratch_project import scratch_checkout
from scripts.verdicts.checkouts import Checkout
from scripts.verdicts.runs import Run, compare, runner
from twin.host.paths import REPOSITORY

FILE = Path(__file__).with_name("recorded.jsonl")
STACK = "local"
CHANGES = {
    "e2-standard-4, min": "e2-standard-8, min",
    "        system_pool:": "        authorized_networks: {office: 203.0.113.0/24}\n"
    "        system_pool:",
    "context: 8192": "context: 16384",
    "    clients:\n": "      gemma-3-4b:\n"
    "        weights: gemma-3-4b-it\n"
    "        capacity: interactive\n"
    "        size: {parameters_billion: 4.3}\n"
    "        context: 8192\n"
    "        replicas: {min: 1, max: 2}\n"
    "    clients:\n",
}
_KEPT = (
    "gcp:container/",
    "gcp:storage/bucket",
    "kubernetes:apps/",
    "kubernetes:autoscaling/",
    "kubernetes:cloud.google.com/",
    "kubernetes:core/v1:ConfigMap",
    "kubernetes:core/v1:Namespace",
    "kubernetes:core/v1:ServiceAccount",
    "kubernetes:gateway.networking.k8s.io/",
    "kubernetes:inference.networking.k8s.io/",
    "kubernetes:monitoring.googleapis.com/v1:PodMonitoring",
    "kubernetes:networking.gke.io/",
    "kubernetes:networking.k8s.io/",
    "kubernetes:policy/",
    "pulumi:providers:kubernetes",
)
_FIELDS = ("urn", "type", "custom", "inputs", "provider", "parent")


def changed(text: str) -> str:
    """Return the stack's file after the change."""
    for old, new in CHANGES.items():
        if old not in text:
            raise ValueError(f"the stack has no {old!r} any more")
        text = text.replace(old, new)
    return text


def main() -> None:
    """Run both and write the file."""
    text = (REPOSITORY / "stacks" / f"Pulumi.{STACK}.yaml").read_text()
    with tempfile.TemporaryDirectory() as folder:
        head = scratch_checkout(Path(folder), STACK, changed(text))
        with runner() as cli:
            run = compare(cli, STACK, Checkout("base", REPOSITORY), Checkout("head", head))
    lines = [json.dumps(_short(step), sort_keys=True) for step in run.steps if _is_kept(step)]
    FILE.write_text("\n".join(lines) + "\n")


def recorded() -> Run:
    """Return what was recorded."""
    steps = [json.loads(line) for line in FILE.read_text().splitlines()]
    old = (step.get("oldState") or step["newState"] for step in steps if step["op"] != "create")
    before = {state["urn"]: state for state in old}
    return Run(tuple(before.values()), tuple(steps))


def outline(run: Run) -> set[tuple[str, str, tuple[str, ...]]]:
    """Return what a record has to say rightly: what is done to which resource, and for what."""
    steps = (step for step in run.steps if _is_kept(step))
    return {(step["op"], step["urn"], _properties(step)) for step in steps}


def _properties(step: dict[str, Any]) -> tuple[str, ...]:
    names: Iterable[str] = step.get("detailedDiff") or step.get("diffReasons") or ()
    return tuple(sorted({re.split(r"[.\[]", name)[0] for name in names}))


def _short(step: dict[str, Any]) -> dict[str, Any]:
    names = ("newState",) if step["op"] == "same" else ("oldState", "newState")
    states = {name: _state(step[name]) for name in names if step.get(name)}
    others = ("op", "urn", "detailedDiff", "diffReasons", "replaceReasons")
    return {**{key: step[key] for key in others if step.get(key)}, **states}


def _is_kept(step: dict[str, Any]) -> bool:
    state = step.get("newState") or step["oldState"]
    return str(state["type"]).startswith(_KEPT)


def _state(state: dict[str, Any]) -> dict[str, Any]:
    kept = {key: state[key] for key in _FIELDS if key in state}
    sources = (state.get("propertyDependencies") or {}).get("kubeconfig")
    if sources:
        kept["propertyDependencies"] = {"kubeconfig": sources}
        kept["inputs"] = {}
    if state["type"] == "kubernetes:core/v1:ConfigMap":
        kept["inputs"] = {**state["inputs"], "data": {}}  # long, and no test looks into it
    return kept


if __name__ == "__main__":
    main()
