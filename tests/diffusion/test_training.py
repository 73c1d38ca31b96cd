"""Training of an adapter for the tiny model: real steps, a real file, killed and resumed."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.diffusion.conftest import SIZE, run
from tests.diffusion.test_real_pipeline import ask
from tests.diffusion.versions import push
from tests.diffusion.warm import WARM, environment
from twin.host.paths import REPOSITORY
from workloads.engine.weights_manifest import CURRENT_NAME, MANIFEST_NAME, Current

# tests/diffusion/personal trains, resumes and serves an adapter in one run
pytestmark = [
    pytest.mark.needs_tools,
    pytest.mark.soak,
    pytest.mark.needs_diffusion,
    pytest.mark.timeout(1800),
]
PROMPT = "a photo of sks bicycle"
WEIGHTS = "pytorch_lora_weights.safetensors"


@contextmanager
def training(own: Path, until: Path) -> Generator["subprocess.Popen[bytes]"]:
    """Run a training; yield its process once it has written a file."""
    argv = [WARM.python(), "-m", "diffusion", "train", "--config", own / "train.json"]
    with subprocess.Popen(
        list(map(str, argv)),
        cwd=REPOSITORY,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        while not until.exists():
            assert process.poll() is None
            time.sleep(0.01)
        yield process


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    for number, color in enumerate([(220, 40, 40), (210, 60, 30), (230, 50, 60)]):
        pixels = np.full((48, 48, 3), color, np.uint8)
        pixels[10 : 20 + 5 * number, 5:30] = (20, 20, 200)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    return folder


@pytest.fixture(scope="module")
def configured(tiny, images, tmp_path_factory):
    """Return the file of a run with a folder of its own, and that folder."""

    def write(**changed):
        own = tmp_path_factory.mktemp("run")
        given = {
            "adapter": str(own / "live" / "alice"),
            "batch": 2,
            "checkpoint_steps": 20,
            "folder": str(tiny),
            "images": str(images),
            "learning_rate": 0.01,
            "platform": "cpu",
            "prompt": PROMPT,
            "rank": 4,
            "size": f"{SIZE}x{SIZE}",
            "steps": 200,
            "text_tokens": 16,
            "work": str(own / "work"),
            **changed,
        }
        (own / "train.json").write_text(json.dumps(given))
        return own

    return write


def lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


@pytest.fixture(scope="module")
def trained(configured):
    own = configured()
    return own, lines(run("-m", "diffusion", "train", "--config", own / "train.json"))


def test_a_run_says_how_far_it_is_and_ends_with_the_adapter(trained):
    own, said = trained
    assert [line["step"] for line in said if "step" in line] == list(range(20, 201, 20))
    assert said[-1]["message"] == "the adapter is written"
    assert [file.name for file in (own / "live" / "alice").iterdir()] == [WEIGHTS]
    assert [file.name for file in (own / "work").iterdir()] == ["progress.json"]


def test_diffusers_own_denoiser_predicts_the_images_better_with_the_adapter(trained, tiny, images):
    script = REPOSITORY / "tests/diffusion/reference_loss.py"
    before, after = json.loads(
        run(script, tiny, images, PROMPT, SIZE, trained[0] / "live" / "alice").splitlines()[-1]
    )
    assert after < 0.8 * before


def test_a_run_that_is_done_is_not_done_again(trained):
    own, _ = trained
    before = (own / "live" / "alice" / WEIGHTS).stat().st_mtime_ns
    said = lines(run("-m", "diffusion", "train", "--config", own / "train.json"))
    assert [line["message"] for line in said] == ["the adapter is there already"]
    assert (own / "live" / "alice" / WEIGHTS).stat().st_mtime_ns == before


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGKILL, -9), (signal.SIGTERM, 143)])
def test_a_run_that_was_ended_goes_on_to_the_same_adapter(trained, configured, sent, status):
    own = configured(checkpoint_steps=1)
    with training(own, until=own / "work" / "checkpoint.npz") as process:
        os.kill(process.pid, sent)
    assert process.returncode == status
    assert not (own / "live").exists()
    said = lines(run("-m", "diffusion", "train", "--config", own / "train.json"))
    resumed = next(line["step"] for line in said if line["message"] == "a checkpoint is there")
    assert 0 < resumed < 200
    whole, again = (each / "live" / "alice" / WEIGHTS for each in (trained[0], own))
    assert again.read_bytes() == whole.read_bytes()


def test_sigterm_before_the_first_step_ends_the_run_at_once(configured):
    own = configured(checkpoint_steps=1)
    with training(own, until=own / "work") as process:
        process.terminate()
    assert process.returncode == 143
    assert list((own / "work").iterdir()) == []


def test_an_adapter_of_another_run_is_no_adapter_of_this_one(trained, configured):
    own = configured(steps=1)
    shutil.copytree(trained[0] / "live", own / "live")
    said = lines(run("-m", "diffusion", "train", "--config", own / "train.json"))
    assert said[-1]["message"] == "the adapter is written"


def test_a_running_server_generates_with_the_adapter_and_not_once_it_is_deleted(trained, start):
    own, _ = trained
    options = {"adapters": {}, "live_rank": 4, "max_batch": 1}
    server = start(live_adapters=str(own / "live"), **options).ready()
    assert abs(ask(server, model="alice")[0] - ask(server)[0]).mean() > 1
    (own / "live" / "alice" / WEIGHTS).unlink()
    assert server.ask(prompt="x", model="alice")[0] == 404
    server.until(lambda: "adapter alice is gone" in server.log.read_text())


def test_what_is_no_image_is_refused_with_its_name(configured, tmp_path):
    (tmp_path / "half.png").write_bytes(b"\x89PNG")
    own = configured(images=str(tmp_path))
    with pytest.raises(AssertionError, match=r"error: images: half\.png must be an image"):
        run("-m", "diffusion", "train", "--config", own / "train.json")


def test_a_run_keeps_the_version_that_it_began_with(configured, tiny, tmp_path):
    push(tmp_path, tiny, "v1")
    changed = {"steps": 6, "checkpoint_steps": 1}
    own = configured(folder=str(tmp_path), **changed)
    with training(own, until=own / "work" / "checkpoint.npz") as process:
        process.kill()
    push(tmp_path, tiny, "v2")  # the pointer moves while the run is interrupted
    said = lines(run("-m", "diffusion", "train", "--config", own / "train.json"))
    assert "a checkpoint is there" in [line["message"] for line in said]
    assert json.loads((own / "work" / "progress.json").read_text())["version"] == "v1"
    whole = configured(folder=str(tmp_path / "v1"), **changed)
    run("-m", "diffusion", "train", "--config", whole / "train.json")
    files = [each / "live" / "alice" / WEIGHTS for each in (own, whole)]
    assert files[0].read_bytes() == files[1].read_bytes()

    shutil.rmtree(tmp_path / "v1")  # nothing can go on with it
    run("-m", "diffusion", "train", "--config", own / "train.json")
    assert json.loads((own / "work" / "progress.json").read_text())["version"] == "v2"


@pytest.mark.parametrize(
    ("pointer", "rule"),
    [
        (None, f"must be the folder of a version, or have {CURRENT_NAME}, got"),
        ("v1", f"must have complete weights, but there is no .*/v1/{MANIFEST_NAME}"),
    ],
)
def test_a_folder_without_weights_is_refused(configured, tmp_path, pointer, rule):
    if pointer is not None:
        (tmp_path / CURRENT_NAME).write_text(Current(pointer).dump())
    own = configured(folder=str(tmp_path))
    with pytest.raises(AssertionError, match=f"error: folder: {rule}"):
        run("-m", "diffusion", "train", "--config", own / "train.json")
