"""A user's pictures, from the upload to the callback, with the programs that do it."""

import base64
import io
import json
import sys
import time
from typing import Any

import pytest
import requests
from PIL import Image

from tests.diffusion.conftest import SIZE
from tests.diffusion.personal.pictures import pictures
from tests.diffusion.personal.world import SECRET, World
from tests.running.programs import until
from workloads.personal.callback import verify

pytestmark = [pytest.mark.needs_tools, pytest.mark.needs_diffusion, pytest.mark.timeout(1200)]
LIMIT = 600.0
PROMPTS = ["a photo of sks bicycle", "sks bicycle on the moon"]
TRAINING = {
    "checkpoint_steps": 20,
    "learning_rate": 0.003,
    "platform": "cpu",
    "prompt": PROMPTS[0],
    "rank": 4,
    "size": f"{SIZE}x{SIZE}",
    "steps": 300,
    "text_encoder_bits": 16,
    "text_tokens": 16,
}
STAGES = ["uploading", "waiting", "training", "drawing", "archiving", "calling"]


class User:
    """The app's backend, for one set of one user."""

    def __init__(self, url: str, callback: str) -> None:
        self._set = f"{url}/v1/users/alice/sets/one"
        self._callback = callback

    def upload(self) -> None:
        """Announce the set, upload its pictures to the signed URLs, and start it."""
        content = pictures()
        announced = [{"type": "image/png", "bytes": len(each)} for each in content]
        body = {"callback": self._callback, "pictures": announced, "prompts": PROMPTS}
        answer = requests.put(self._set, json=body, timeout=60)
        assert answer.status_code == 200, answer.text
        for picture, to in zip(content, answer.json()["uploads"], strict=True):
            sent = requests.put(to["url"], data=picture, headers=to["headers"], timeout=60)
            assert sent.status_code == 200, sent.text
        assert requests.post(f"{self._set}/start", timeout=60).status_code == 202

    def shown(self) -> dict[str, Any]:
        """Return what the service shows of the set."""
        answer = requests.get(self._set, timeout=60)
        assert answer.status_code == 200, answer.text
        return answer.json()


def generated(server: Any, model: str, seed: int) -> bytes:
    """Return an image of the server."""
    asked = {"prompt": PROMPTS[seed], "seed": seed, "response_format": "b64_json"}
    status, body, _ = server.ask(model=model, **asked)
    assert status == 200, body
    return base64.b64decode(body["data"][0]["b64_json"])


def test_a_set_is_finished_though_its_worker_is_killed_and_its_job_preempted_in_training(
    world: World, server: Any, record_property: Any
) -> None:
    server.ready()
    user = User(world.serve(), f"https://{world.receiver.host}/done")
    first = world.work(**TRAINING)
    user.upload()
    progress = world.shared / "work" / "alice-one" / "progress.json"
    until(progress.exists, LIMIT)
    first.kill()
    killed = time.monotonic()
    assert user.shown()["stage"] == "training"
    world.cluster.preempt()
    second = world.work(**TRAINING)
    until(lambda: user.shown()["stage"] in ("done", "failed"), LIMIT)
    resumed = time.monotonic() - killed

    shown = user.shown()
    assert (shown["stage"], shown["error"], shown["callback"]) == ("done", "", "delivered")
    assert list(shown["seconds"]) == STAGES
    record_property("seconds", shown["seconds"])
    sys.stdout.write(f"stages: {shown['seconds']}; {resumed:.1f} s after the kill\n")
    assert "archiving" in second.log.read_text()

    assert world.cluster.created == ["train-alice-one"]  # the second worker created no other
    assert len(world.cluster.pods) == 2
    assert "a checkpoint is there" in (world.folder / "pod-1" / "log").read_text()
    assert world.cluster.objects == {}
    assert not progress.parent.exists()

    adapter = world.shared / "flux" / "live-adapters" / "alice-one"
    (file,) = adapter.iterdir()
    size = int.from_bytes(file.read_bytes()[:8], "little")
    header = json.loads(file.read_bytes()[8 : 8 + size])
    assert json.loads(header["__metadata__"]["gke_inference_run"])["version"] == "v1"
    assert requests.get(shown["adapter"], timeout=60).content == file.read_bytes()
    for seed, url in enumerate(shown["images"]):
        image = requests.get(url, timeout=60).content
        assert Image.open(io.BytesIO(image)).size == (SIZE, SIZE)
        assert image == generated(server, "alice-one", seed)
        assert image != generated(server, "flux", seed)

    ((headers, body),) = world.receiver.called
    state = json.loads(world.object("users/alice/one/state.json"))
    assert verify(SECRET, headers, body, time.time()) == state["id"]
    assert json.loads(body)["images"] == len(PROMPTS)
