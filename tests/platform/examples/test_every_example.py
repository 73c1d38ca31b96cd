"""Every example that no other test deploys comes up on the twin, answers, and leaves nothing."""

import json
import re
import time
from pathlib import Path

import pytest

from tests.platform.example_checkout import checkout, output_of, run
from tests.shipped_stacks import EXAMPLES
from twin.host.paths import TwinPaths
from twin.wire.kube import Kube

pytestmark = [pytest.mark.needs_tools, pytest.mark.soak, pytest.mark.timeout(1800)]

STACKS = {
    "apigee": ["apigee"],
    "archive": ["archive"],
    "calendar-mode": ["calendar-mode"],
    "client-certificates": ["client-certificates"],
    "disaggregation": ["disaggregation"],
    "image-models": ["image-models"],
    "lustre-adapters": ["lustre-adapters"],
    "multi-host": ["slices"],
    "rdma": ["rdma"],
    "sdxl": ["sdxl"],
    "shared-adapters": ["shared-adapters"],
    "tcpx": ["tcpx"],
    "tcpxo": ["tcpxo"],
    "teams": ["shared", "search", "ads"],
    "three-regions": ["three-regions"],
    "video": ["video"],
    "vision-language": ["vision-language"],
}
"""Stacks by folder, in the order in which they are deployed."""
PLATFORM = "shared"
"""Stack whose models are those of other stacks."""
_ENTRY = re.compile(r"`([a-z_]+: \[.*?\])`(?=,| to )")


def bring_up(folder: Path, paths: TwinPaths, stack: str) -> str:
    """Deploy a stack, after giving the twin's cloud what `up` says that it lacks."""
    first = run(folder, paths, "up", "--stack", stack)
    if first.returncode == 0:
        return first.stdout
    entries = _ENTRY.findall(first.stdout)
    assert entries, first.stdout
    paths.capacity_file.parent.mkdir(parents=True, exist_ok=True)
    paths.capacity_file.write_text("\n".join(entries) + "\n")
    return output_of(folder, paths, "up", "--stack", stack)


def rungs(folder: Path, paths: TwinPaths) -> dict[str, str]:
    """Return the rung of each model's ready replica in the predictive example."""
    shown = json.loads(output_of(folder, paths, "status", "--stack", "predictive", "-o", "json"))
    return {one["model"]: one["rung"] for one in shown["replicas"] if one["state"] == "ready"}


@pytest.mark.parametrize("example", STACKS)
def test_an_example_comes_up_answers_and_leaves_nothing(
    tmp_path: Path, paths: TwinPaths, example: str
):
    assert (EXAMPLES / example).is_dir()
    folder = checkout(tmp_path / "checkout", example)
    for stack in STACKS[example]:
        printed = bring_up(folder, paths, stack)
        has_models = stack != PLATFORM
        assert ("Models   " in printed) == has_models
        assert ("Team     search" in printed) == (not has_models)
    assert "Nothing is left in the cloud." in output_of(folder, paths, "down")


def test_a_classifier_on_processors_answers_and_falls_to_the_next_machine_family(
    tmp_path: Path, paths: TwinPaths
):
    # the short forms are tests/contract/infra/test_processors.py and
    # twin/tests/unit/cluster/test_autoscaler_plan.py
    folder = checkout(tmp_path / "checkout", "predictive")
    output_of(folder, paths, "up", "--stack", "predictive")
    first, next_one = (f"{family}-standard-8 on-demand" for family in ("c3", "n4"))
    others = {"fraud-v2": first, "qwen3-4b": "nvidia-l4 g2-standard-12 on-demand"}
    assert rungs(folder, paths) == {"fraud": first, **others}
    paths.capacity_file.write_text("stock: [{zone: us-central1-*, accelerator: c3, chips: 0}]\n")
    (kubeconfig,) = paths.root.glob("clusters/*/kubeconfig")
    kube = Kube(kubeconfig)
    (pod,) = kube.list("/api/v1/pods", label_selector="gke-inference/model=fraud")
    kube.delete(f"/api/v1/nodes/{pod['spec']['nodeName']}")
    end = time.monotonic() + 300
    while rungs(folder, paths) != {"fraud": next_one, **others}:
        assert time.monotonic() < end
        time.sleep(5)
    accepted = run(folder, paths, "accept", "--stack", "predictive", "-o", "json")
    rows = [row for each in json.loads(accepted.stdout)["groups"].values() for row in each]
    answered = {row["name"]: row["verdict"] for row in rows if row["subject"] == "prediction"}
    assert answered == {"fraud in us-central1": "met"}
    assert "Nothing is left in the cloud." in output_of(folder, paths, "down")
