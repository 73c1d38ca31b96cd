"""The image server, the training run and the workers of personalized images as processes."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from twin.cluster.agent.launch import plan
from twin.cluster.agent.launching.claims import Kind
from twin.cluster.agent.launching.environment import ConfigError
from twin.cluster.agent.launching.hardware import NodeHardware
from twin.cluster.agent.launching.pictures import image_server, personal, trainer
from twin.cluster.agent.launching.place import Place
from twin.cluster.agent.launching.volumes import Mount
from twin.engines import callbacks
from twin.world.rules import Rules
from workloads.diffusion.__main__ import parser, settings_of
from workloads.diffusion.config import Settings, from_dict

TRAIN = ["python3", "-m", "diffusion", "train", "--config", "/etc/train/train.json"]
RUN = {"name": "train", "image": "a/diffusion-tpu@sha256:b", "command": TRAIN}
WORKER = {"name": "personal", "image": "a/personal:1", "args": ["work", "/etc/personal/s.json"]}
SETTINGS = {
    "adapter": "/mnt/shared/flux/live-adapters/alice",
    "folder": "/mnt/models/flux",
    "images": "/mnt/images/users/alice",
    "size": "1024x1024",
    "work": "/mnt/shared/work/alice",
}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Return a place whose mounts are folders of the test."""
    mounts = [
        Mount(path, tmp_path / path.rpartition("/")[2], path != "/mnt/shared")
        for path in ("/mnt/models", "/mnt/images", "/mnt/shared", "/etc/train", "/etc/personal")
    ]
    mounts.append(Mount("/etc/personal-secret", tmp_path / "secret", True))
    for mount in mounts:
        mount.folder.mkdir()
    (tmp_path / "train" / "train.json").write_text(json.dumps(SETTINGS))
    pod = {
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {},
        "status": {"podIP": "127.1.1.1"},
    }
    node = NodeHardware("tpu", "tpu-v6e-slice", 1)
    own = tmp_path / "own"
    own.mkdir()
    return Place(pod, node, mounts, {}, own / "kubeconfig", Rules(speed=50), Path, root=None)


def pipeline(monkeypatch: pytest.MonkeyPatch, *, is_installed: bool) -> None:
    found = SimpleNamespace(
        folder=Path("/pipeline"), is_installed=is_installed, python=lambda: Path("/pipeline/python")
    )
    monkeypatch.setattr(trainer.install, "DIFFUSION", found)
    monkeypatch.setattr(trainer.install, "tiny_model", lambda: Path("/tiny"))


def written(tmp_path: Path) -> dict[str, Any]:
    return json.loads((tmp_path / "own" / "train.json").read_text())


def test_a_training_run_takes_real_steps_with_a_tiny_model(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pipeline(monkeypatch, is_installed=True)
    (tmp_path / "models" / "flux").mkdir()
    launch = plan(RUN, place)
    assert (launch.kind, launch.is_real) == (Kind.TRAINER, True)
    assert launch.argv[:5] == ["/pipeline/python", "-m", "diffusion", "train", "--config"]
    found = written(tmp_path)
    assert (found["folder"], found["platform"], found["size"]) == ("/tiny", "cpu", "32x32")
    assert found["adapter"] == f"{tmp_path}/shared/flux/live-adapters/alice"
    assert found["images"] == f"{tmp_path}/images/users/alice"


def test_a_model_without_weights_is_not_replaced_by_a_tiny_one(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pipeline(monkeypatch, is_installed=True)
    plan(RUN, place)
    assert written(tmp_path)["folder"] == f"{tmp_path}/models/flux"


def test_without_the_pipeline_a_training_run_is_simulated(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pipeline(monkeypatch, is_installed=False)
    launch = plan(RUN, place)
    assert launch.argv[:3] == [sys.executable, "-m", "simulator.diffusion.trainer"]
    assert launch.environment["GKE_INFERENCE_SIM_SPEED"] == "50"
    assert not launch.is_real
    assert written(tmp_path)["size"] == "1024x1024"


def test_another_command_of_a_training_run_is_refused(place: Place):
    with pytest.raises(ConfigError, match="no training run in the command: python3 train"):
        plan({**RUN, "command": ["python3", "train"]}, place)


def test_a_worker_has_the_files_of_its_pod(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    environment = SimpleNamespace(install=lambda _: Path("/personal"))
    monkeypatch.setattr(personal, "personal_environment", lambda: environment)
    given = {"secret_file": "/etc/personal-secret/secret", "shared": "/mnt/shared", "sets": 3}
    (tmp_path / "personal" / "s.json").write_text(json.dumps(given))
    launch = plan(WORKER, place)
    assert launch.needs_kubeconfig
    assert launch.argv[:5] == [
        "/personal/bin/python",
        "-W",
        "ignore",
        "-m",
        "twin.engines.callbacks",
    ]
    assert json.loads(Path(launch.argv[-1]).read_text()) == {
        "account": f"{tmp_path}/own/serviceaccount",
        "secret_file": f"{tmp_path}/secret/secret",
        "sets": 3,
        "shared": f"{tmp_path}/shared",
    }


def test_a_callback_finds_its_receiver_on_this_machine_and_no_other_host(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(personal.clients, "environment", lambda *_: {})
    monkeypatch.setattr(callbacks, "_find", lambda host, port: (host, port))
    for name, value in personal.environment(replace(place, root=tmp_path)).items():
        monkeypatch.setenv(name, value)
    (tmp_path / "receivers.json").write_text('{"app.example.com": "127.0.0.1:4430"}')
    assert callbacks.found("app.example.com", 443) == ("127.0.0.1", 4430)
    assert callbacks.found("127.0.0.7", 80) == ("127.0.0.7", 80)
    with pytest.raises(OSError, match=r"other.example.com: not in .*receivers.json"):
        callbacks.found("other.example.com", 443)


def test_a_simulated_image_server_gets_the_folder_that_the_launcher_chose(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    shown = tmp_path / "shown.py"
    shown.write_text("import sys; print(*sys.argv[1:])")
    monkeypatch.setattr(image_server, "simulated", lambda _: [sys.executable, str(shown), "serve"])
    engine = ["python3", "-m", "engine", "--spec=/spec.json"]
    server = [*image_server.COMMAND, "--model=wan", "--folder=/mnt/models/wan"]
    image = "a/diffusion-tpu@sha256:b"
    container = {"name": "diffusion", "image": image, "command": [*engine, "--", *server]}
    launch = image_server.launched(container, place, {"PATH": "/bin"})
    assert launch.argv[-len(server) :] == server
    program = tmp_path / "own" / "roots" / "diffusion" / "usr" / "local" / "bin" / "python3"
    versioned = [*image_server.COMMAND[1:], "--model=wan", "--folder=/mnt/models/wan/19c0fb43acaa"]
    ran = subprocess.run([program, *versioned], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == [
        "serve",
        "--model=wan",
        f"--folder={tmp_path}/models/wan/19c0fb43acaa",
    ]


def test_the_real_pipeline_keeps_a_process_for_each_model_with_chips_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    found = SimpleNamespace(folder=Path("/pipeline"), python=lambda: Path("/pipeline/python"))
    monkeypatch.setattr(image_server.install, "DIFFUSION", found)
    monkeypatch.setattr(image_server.install, "tiny_model", lambda: Path("/tiny"))
    monkeypatch.setattr(image_server.install, "environment", dict)

    def settings(*flags: str, **base: Any) -> Settings:
        further = json.dumps({"folder": "/mini", "model": "mini", "text_tokens": 77, **base})
        given = ["--model=flux", "--folder=/flux", "--workers=4", f"--base-model={further}"]
        words, _ = image_server.real([*given, *flags], tmp_path, "127.1.1.1")
        return from_dict(settings_of(parser().parse_args(words[3:])))

    own = settings("--chips=3", chips=1)
    assert (own.workers, own.held) == (2, (("flux",), ("mini",)))
    assert {each.folder for each in own.bases.values()} == {"/tiny"}
    shared = settings()
    assert (shared.workers, shared.held) == (1, (("flux", "mini"),))
