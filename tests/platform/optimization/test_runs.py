"""Jobs of the example as pods of its platform: Kueue admits them, and the gate reads results."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.platform import example_checkout
from tests.platform.example_checkout import output_of
from twin.cluster.base.context import ClusterContext
from twin.host.paths import TwinPaths
from twin.providers.gcp.effects import gcs
from twin.tests.eventually import eventually
from twin.wire.kube import JsonObject
from workloads.optimization.scores import Result
from workloads.transfer.store import Store
from workloads.transfer.versions import Home, read_current, set_current

# short forms: tests/unit/optimization has the programs, twin/tests/running/queues the real Kueue
pytestmark = [pytest.mark.needs_tools, pytest.mark.soak]

STACK = ("--stack", "optimization")
BUCKET, NAMESPACE = "acme-optimization-models-us-central1", "jobs-models"
MODEL, QUANTIZED, ADAPTER = "qwen3-4b", "qwen3-4b-w8a8", "qwen3-1.7b/adapters/sql"
RECORD = "gke_inference_optimization.json"
DATA = {
    "data/calibration.jsonl": [{"text": f"The fox jumps over dog {at}."} for at in range(4)],
    "data/questions.jsonl": [{"question": "Which city is it?", "answer": "Paris"}],
    "data/sql-train.jsonl": [{"prompt": "select", "completion": "1"}],
}
SECONDS = 600


class Runs:
    """Runs of the jobs, and what they write."""

    def __init__(self, paths: TwinPaths) -> None:
        (spec,) = (paths.root / "clusters").glob("*/spec.json")
        self._paths, self._cluster = paths, spec.parent
        self._kube = ClusterContext(paths, spec.parent).kube
        for name, rows in DATA.items():
            text = "".join(json.dumps(row) + "\n" for row in rows)
            gcs.upload(paths, BUCKET, name, text.encode(), "application/json")

    def start(self, role: str, name: str, run: str, **changes: Any) -> None:
        """Create a job as `kubectl create job --from=cronjob/NAME` does, or with other settings."""
        made = f"{role}-{name}"
        batch = f"/apis/batch/v1/namespaces/{NAMESPACE}"
        template: JsonObject = self._kube.get(f"{batch}/cronjobs/{made}")["spec"]["jobTemplate"]
        if changes:
            maps = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
            ((file, text),) = self._kube.get(f"{maps}/{made}")["data"].items()
            settings = json.dumps({**json.loads(text), **changes})
            self._kube.post(maps, {"metadata": {"name": run}, "data": {file: settings}})
            for volume in template["spec"]["template"]["spec"]["volumes"]:
                if "configMap" in volume:
                    volume["configMap"] = {"name": run}
        body = {"metadata": {**template["metadata"], "name": run}, "spec": template["spec"]}
        self._kube.post(f"{batch}/jobs", body)

    def ends(self, run: str) -> None:
        """Wait until a run has succeeded."""
        where = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{run}"

        def has_succeeded() -> bool:
            status = self._kube.get(where).get("status", {})
            assert not status.get("failed"), self.log(run)
            return bool(status.get("succeeded"))

        eventually(has_succeeded, SECONDS)

    def fails(self, run: str) -> tuple[int, str]:
        """Wait until a pod of a run has failed; return its exit code and its log."""
        pods = f"/api/v1/namespaces/{NAMESPACE}/pods"

        def code() -> int | None:
            for pod in self._kube.list(pods, f"job-name={run}"):
                for each in pod.get("status", {}).get("containerStatuses", []):
                    ended = each.get("state", {}).get("terminated")
                    if ended:
                        return ended["exitCode"]
            return None

        return eventually(code, SECONDS), self.log(run)

    def log(self, run: str) -> str:
        logs = (self._cluster / "logs" / "pods").glob(f"{NAMESPACE}_{run}-*.log")
        return "\n".join(log.read_text()[-3000:] for log in logs)

    def made(self, folder: str) -> tuple[str, dict[str, Any]]:
        """Return the version that a job has pushed to a folder, and its record."""
        names = [each["name"] for each in gcs.objects(self._paths, BUCKET)]
        (found,) = [
            name for name in names if name.startswith(f"{folder}/") and name.endswith(RECORD)
        ]
        version = found.removeprefix(f"{folder}/").partition("/")[0]
        return version, json.loads(gcs.read(self._paths, BUCKET, found))


def test_results_of_jobs_open_and_close_the_gate_and_wrong_settings_fail(
    tmp_path: Path, paths: TwinPaths
) -> None:
    checkout = example_checkout.checkout(tmp_path / "checkout", "optimization")
    file = checkout / "stacks" / "Pulumi.optimization.yaml"
    text = file.read_text()
    assert "tasks: [gsm8k], " in text, "the twin does not reach the hub"
    file.write_text(text.replace("tasks: [gsm8k], ", ""))
    output_of(checkout, paths, "up", *STACK)
    runs = Runs(paths)

    def gate() -> tuple[int, str]:
        check = ("canary", "check", *STACK, "--model", MODEL)
        ran = example_checkout.run(checkout, paths, *check, stderr=subprocess.STDOUT)
        return ran.returncode, ran.stdout

    code, said = gate()
    assert (code, "has no result yet" in said) == (1, True), said
    runs.start("quantize", QUANTIZED, "first")
    runs.start("tune", "sql", "second", epochs=1)
    runs.ends("first")
    runs.ends("second")
    version, record = runs.made(QUANTIZED)
    assert (record["scheme"], record["samples"]) == ("w8a8", 4)
    assert record["model"].startswith(f"{MODEL}@")
    assert runs.made(ADAPTER)[1]["rank"] == 16

    store, home = Store("twin", endpoint=gcs.url(paths)), Home(BUCKET, QUANTIZED)
    served = read_current(store, home)
    runs.start("evaluate", QUANTIZED, "third")
    runs.ends("third")
    (result,) = [
        Result.parse(gcs.read(paths, BUCKET, each["name"]).decode())
        for each in gcs.objects(paths, BUCKET)
        if each["name"].startswith(f"evaluations/{QUANTIZED}/")
    ]
    assert (result.candidate.version, result.baseline.version) == ("w8a8", "stable")
    assert result.candidate.weights == f"{QUANTIZED}@{served}"
    assert result.scores[0].questions == 1
    code, said = gate()
    assert code == 0, said
    set_current(store, home, version)
    code, said = gate()
    assert code == 1, "the result is of other weights"

    for run, changes, wanted in (
        ("scheme", {"scheme": "int3"}, (2, "scheme: must be one of fp8, w4a16, w8a8")),
        ("data", {"data": "data/none.jsonl"}, (1, "data: must be an object of the bucket")),
    ):
        runs.start("quantize", QUANTIZED, run, **changes)
        code, log = runs.fails(run)
        assert (code, wanted[1] in log) == (wanted[0], True), log

    assert "Nothing is left in the cloud." in output_of(checkout, paths, "down")
