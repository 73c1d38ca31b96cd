"""From an empty bucket to a model that answers, with weights that a job in the cluster pushes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.shared.engine import Engine
from scripts.shared.model_client import stream_chat
from tests.platform.weights.hub import serve
from twin.engines.real.tiny_model import write_adapter, write_model
from twin.host.paths import REPOSITORY, TwinPaths

# test_weights_job.py has the job, whole/ the platform that it fills
pytestmark = [pytest.mark.needs_tools, pytest.mark.soak, pytest.mark.timeout(1800)]
MODEL = "llama-3.1-8b"


def test_a_model_is_served_once_a_job_has_pushed_its_weights(
    paths: TwinPaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GKE_INFERENCE_TWIN_DIR", str(paths.root))

    def cli(*arguments: str) -> str:
        answer = subprocess.run(
            [str(Path(sys.executable).with_name("gke-inference")), *arguments],
            cwd=REPOSITORY,
            env=os.environ,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert answer.returncode == 0, answer.stdout + answer.stderr
        return answer.stdout

    with serve("acme/llama", write_model(tmp_path / "hub")) as address:
        monkeypatch.setenv("HF_ENDPOINT", address)
        cli("up", "--stack", "local", "--no-weights")
        assert "no replica, waiting for weights" in cli("status", "--stack", "local")
        push = ("models", "push", "--stack", "local", "--model")
        said = cli(*push, MODEL, "--in-cluster", "--from-hub", "acme/llama", "--yes")
        assert f"{MODEL}: complete in acme-local-models-us-central1" in said
    for adapter in ("sql", "support"):
        cli(*push, f"{MODEL}/adapters/{adapter}", str(write_adapter(tmp_path / adapter)))
    cli("models", "verify", "--stack", "local", "--model", MODEL, "--deep")
    cli("up", "--stack", "local")
    endpoint = Engine(paths).outputs("local")["endpoint"]
    assert stream_chat(endpoint, MODEL, "Hello").text
