"""The server program with a model of videos, and a pipeline that draws texts."""

import json

import pytest

from tests.running.diffusion.conftest import servers

pytestmark = pytest.mark.needs_tools  # server and workers as processes
VIDEOS = "/v1/videos/sync"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "wan"
    (folder / "transformer").mkdir(parents=True)
    config = json.dumps({"_class_name": "WanTransformer3DModel"})
    (folder / "transformer" / "config.json").write_text(config)
    given = {"folder": str(folder), "frames": [81, 33], "max_batch": 1, "model": "wan"}
    with servers(tmp_path_factory.mktemp("servers")) as start:
        yield start(**given, sizes=["832x480"], steps=4).ready()


def test_the_response_is_the_file_and_its_seed_is_in_a_header(server):
    drawn_videos = 'diffusion_images_total{model_name="wan",outcome="drawn"}'
    before = server.metric(drawn_videos) or 0
    body = {"prompt": "a red bicycle", "negative_prompt": "grey", "seconds": "2", "seed": 7}
    status, file, headers = server.post(VIDEOS, **body)
    assert status == 200, file
    assert (headers["Content-Type"], headers["X-Model"]) == ("video/mp4", "wan")
    assert headers["X-Seed"] == "7"
    drawn = json.loads(file)
    assert (drawn["prompt"], drawn["negative"], drawn["frames"]) == ("a red bicycle", "grey", 33)
    assert server.metric(drawn_videos) == before + 1
    assert server.metric('diffusion_requests_total{code="200"}') == before + 1
    lines = [json.loads(line) for line in server.log.read_text().splitlines()]
    assert {line["frames"] for line in lines if line.get("outcome") == "drawn"} == {33}


def test_an_error_has_openais_format_and_is_counted(server):
    refused = 'diffusion_requests_total{code="400"}'
    before = server.metric(refused) or 0
    status, body, headers = server.post(VIDEOS, prompt="x", num_frames=80)
    assert (status, headers["Content-Type"]) == (400, "application/json; charset=utf-8")
    assert json.loads(body)["error"] == {
        "code": None,
        "message": "num_frames: must be one of 81, 33, got 80",
        "param": "num_frames",
        "type": "invalid_request_error",
    }
    status, body, _ = server.ask(prompt="x")
    assert (status, body["error"]["param"]) == (400, "model")
    assert server.metric(refused) == before + 2


def test_a_client_that_goes_frees_its_chip(server, tmp_path):
    never = f"hold {tmp_path / 'never'}"
    leave = server.hang_up_on(VIDEOS, prompt=never)
    server.until(lambda: server.metric("diffusion_images_running") == 1)
    leave()
    server.until(lambda: server.metric("diffusion_images_running") == 0)
    assert server.post(VIDEOS, prompt="the chip is free")[0] == 200
