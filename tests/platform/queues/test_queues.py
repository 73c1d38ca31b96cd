"""Queues on the whole platform: two teams share chips, and `jobs` shows who waits and why."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.platform import example_checkout
from twin.cluster.base.context import ClusterContext
from twin.cluster.monitoring.promql import query
from twin.cluster.monitoring.server import address_of
from twin.host.paths import TwinPaths
from twin.tests.eventually import eventually
from twin.world.capacity import World

# the short form is twin/tests/running/queues, with the real Kueue
pytestmark = [pytest.mark.needs_tools, pytest.mark.soak]

STACK = ("--stack", "queues")
DELAY = "pod-complete.stage.kwok.x-k8s.io/delay"


class Jobs:
    """The jobs of a platform, as its teams submit and see them."""

    def __init__(self, folder: Path, paths: TwinPaths) -> None:
        self._folder = folder
        self._paths = paths
        (spec,) = (paths.root / "clusters").glob("*/spec.json")
        self.kube = ClusterContext(paths, spec.parent).kube
        self._prometheus = address_of(spec.parent)

    def submit(
        self,
        team: str,
        name: str,
        lasts: str = "1h",
        *,
        queue: str = "chips",
        chips: tuple[str, str] = ("google.com/tpu", "4"),
        pods: int = 1,
    ) -> None:
        limits = dict([chips])
        container = {"image": "python:3.12", "name": "work", "resources": {"limits": limits}}
        template = {
            "metadata": {"annotations": {DELAY: lasts}},
            "spec": {"containers": [container], "restartPolicy": "Never"},
        }
        labels = {"kueue.x-k8s.io/queue-name": queue}
        spec = {"completions": pods, "parallelism": pods, "template": template}
        body = {"metadata": {"labels": labels, "name": name}, "spec": spec}
        self.kube.post(f"/apis/batch/v1/namespaces/jobs-{team}/jobs", body)

    def shown(self) -> dict[str, dict[str, Any]]:
        """Return what `jobs` shows, by the name of the job."""
        ran = example_checkout.run(
            self._folder, self._paths, "jobs", *STACK, "-o", "json", stderr=subprocess.PIPE
        )
        assert ran.returncode == 0, ran.stderr
        return {each["job"]: each for each in json.loads(ran.stdout)["jobs"]}

    def measured(self, metric: str) -> dict[str, float]:
        """Return what Kueue's leader reports in Prometheus, by queue and team."""
        expression = f'sum by (cluster_queue) ({metric}{{job="kueue",replica_role="leader"}})'
        assert self._prometheus is not None
        found = query(self._prometheus, expression)
        return {point.labels["cluster_queue"]: point.value for point in found}

    def states(self, *wanted: str) -> list[str]:
        return sorted(name for name, each in self.shown().items() if each["state"] in wanted)


def test_teams_share_chips_and_see_what_their_jobs_wait_for(
    tmp_path: Path, paths: TwinPaths, series_are_recorded: Callable[[TwinPaths, str], None]
) -> None:
    folder = example_checkout.checkout(tmp_path / "checkout", "queues")
    up = example_checkout.run(folder, paths, "up", *STACK, stderr=subprocess.PIPE)
    assert up.returncode == 0, f"{up.stdout[-3000:]}{up.stderr[-2000:]}"
    jobs = Jobs(folder, paths)

    # a job of several pods gets all of its nodes at once
    gpus = ("nvidia.com/gpu", "8")
    jobs.submit("research", "tune", lasts="5s", queue="training", chips=gpus, pods=2)
    eventually(lambda: jobs.shown()["tune"]["state"] == "succeeded", 150)

    # research has 8 spot and 4 flex-start chips, and borrows all that evals does not use
    for number in range(7):
        jobs.submit("research", f"train-{number}")
    eventually(lambda: len(jobs.states("running")) == 6, 90)
    found = jobs.shown()
    flavors = [each["flavor"] for each in found.values() if each["state"] == "running"]
    assert sorted(flavors) == ["jobs-flex"] * 2 + ["jobs-spot"] * 4
    (waiting,) = jobs.states("queued")
    assert "insufficient unused quota for google.com/tpu" in found[waiting]["reason"]
    # and Prometheus has it from Kueue, with the token that the collector may read
    eventually(lambda: jobs.measured("kueue_pending_workloads").get("chips-research") == 1, 60)
    assert jobs.measured("kueue_admitted_active_workloads")["chips-research"] == 6
    used = jobs.measured("kueue_cluster_queue_resource_usage")
    assert (used["chips-research"], used["chips-evals"]) == (24, 0)

    # evals comes back for its own
    jobs.submit("evals", "check", lasts="20s")
    eventually(lambda: jobs.states("preempted"), 90)
    eventually(lambda: jobs.measured("kueue_evicted_workloads_total").get("chips-research"), 60)
    eventually(lambda: jobs.shown()["check"]["state"] == "succeeded", 90)
    eventually(lambda: len(jobs.states("running")) == 6, 90)

    # spot chips are gone: jobs keep their turn, and say what they wait for
    none = {"zone": "*", "accelerator": "tpu-v6e", "provisioning": "spot", "chips": 0}
    World.model_validate({"stock": [none]}).save(paths.capacity_file)
    eventually(
        lambda: [
            each
            for each in jobs.shown().values()
            if each["state"] == "waiting for nodes"
            and "ZONE_RESOURCE_POOL_EXHAUSTED" in each["reason"]
        ],
        90,
    )
    World().save(paths.capacity_file)
    eventually(lambda: len(jobs.states("running")) == 6, 90)

    series_are_recorded(paths, "queues")
    down = example_checkout.run(folder, paths, "down")
    assert down.returncode == 0, down.stdout[-3000:]
