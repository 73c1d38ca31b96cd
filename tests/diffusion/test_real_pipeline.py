"""The server with the real pipeline: torchax over diffusers, a tiny model, this machine."""

import base64
import io
import json
import signal

import numpy as np
import pytest
from PIL import Image

from tests.diffusion.conftest import SIZE, run
from twin.host.paths import REPOSITORY

pytestmark = [pytest.mark.needs_tools, pytest.mark.needs_diffusion, pytest.mark.timeout(1800)]
LAST_BIT = 1  # of a colour: what arithmetic in another order may change


def opened(file):
    """Return the picture of a file, or of its base64."""
    source = io.BytesIO(base64.b64decode(file)) if isinstance(file, str) else file
    return Image.open(source)


def pictures(answer):
    status, body, _ = answer
    assert status == 200, body
    found = [opened(each["b64_json"]) for each in body["data"]]
    assert {each.format for each in found} <= {"PNG", "JPEG"}
    return [np.asarray(each).astype(int) for each in found]


def ask(server, **body):
    return pictures(server.ask(**{"prompt": "a red bicycle", "seed": 7, **body}))


def test_programs_made_ahead_of_time_are_read_and_nothing_is_compiled(server, compiled):
    assert compiled.count("\n") == 11
    said = server.log.read_text().splitlines()
    lines = [json.loads(line) for line in said if line.startswith("{")]
    ready = next(line for line in lines if line["message"] == "ready")
    assert ready["models"]["flux"]["programs"] == {"read": 11}


def test_one_seed_is_one_picture_and_another_seed_another(server):
    first, second = ask(server)[0], ask(server, seed=8)[0]
    assert first.shape == (SIZE, SIZE, 3)
    assert (ask(server)[0] == first).all()
    assert abs(first - second).mean() > 10


def test_a_prompt_changes_the_picture(server):
    assert (ask(server)[0] != ask(server, prompt="a blue car")[0]).any()


def test_a_picture_of_a_batch_is_the_one_drawn_alone(server):
    batch = ask(server, n=2)
    alone = [ask(server, seed=seed)[0] for seed in (7, 8)]
    assert abs(np.stack(batch) - np.stack(alone)).max() <= LAST_BIT


def test_a_jpeg_is_nearly_the_same_picture(server):
    assert abs(ask(server, output_format="jpeg")[0] - ask(server)[0]).mean() < 20


@pytest.mark.soak  # the next test has a picture without the adapter, test_sdxl.py one with it
def test_the_picture_of_an_adapter_is_the_one_of_diffusers_own_pipeline(server, tiny, tmp_path):
    out = tmp_path / "reference.png"
    extra = tiny / "adapters" / "comic"
    run(REPOSITORY / "tests/diffusion/reference.py", tiny, out, 7, SIZE, extra)
    drawn = ask(server, model="comic")[0]
    assert abs(drawn - np.asarray(Image.open(out)).astype(int)).max() <= LAST_BIT


def test_a_picture_and_its_preview_are_those_of_diffusers_own_pipeline(server, tiny, tmp_path):
    out, expected = tmp_path / "reference.png", tmp_path / "expected.png"
    extra = ["--steps", 4, "--expected-after", 2, "--expected", expected]
    run(REPOSITORY / "tests/diffusion/reference.py", tiny, out, 7, SIZE, *extra)
    words = {"prompt": "a red bicycle", "extra_body": {"seed": 7, "num_inference_steps": 4}}
    preview, whole = server.client().images.generate(
        model="flux", stream=True, partial_images=1, **words
    )
    assert preview.type == "image_generation.partial_image"
    shown, last = (np.asarray(opened(each.b64_json)).astype(int) for each in (preview, whole))
    assert abs(shown - np.asarray(Image.open(expected)).astype(int)).max() <= LAST_BIT
    assert abs(last - np.asarray(Image.open(out)).astype(int)).max() <= LAST_BIT
    assert (last == ask(server, num_inference_steps=4)[0]).all()
    assert (shown != last).any()


@pytest.mark.soak  # tests/running/diffusion has two models; this one loads their weights
def test_two_models_in_one_process_draw_what_each_draws_alone(start, server, tiny, tmp_path):
    code = "import sys, pathlib; from diffusion.xla import tiny;"
    run("-c", f"{code} tiny.write_pipeline(pathlib.Path(sys.argv[1]), seed=1)", tmp_path)
    other = {"model": "other", "folder": str(tmp_path), "steps": 2}
    both = start(base_models=[other]).ready()
    out = tmp_path / "reference.png"
    run(REPOSITORY / "tests/diffusion/reference.py", tmp_path, out, 7, SIZE)
    first, second, again = (ask(both, model=name)[0] for name in ("flux", "other", "flux"))
    assert abs(second - np.asarray(opened(out)).astype(int)).max() <= LAST_BIT
    assert (first == ask(server)[0]).all()
    assert (first == again).all()


@pytest.mark.soak  # tests/running/diffusion has the requests; it starts a server of its own
def test_two_adapters_with_weights_draw_what_diffusers_draws_with_them(start, tiny, tmp_path):
    folders = {name: str(tiny / "adapters" / name) for name in ("comic", "noir")}
    both = start(adapters=folders, max_adapters=2, max_batch=1).ready()
    out, weights = tmp_path / "reference.png", (0.8, -0.3)
    extra = [*folders.values(), *(f"--weight={each}" for each in weights)]
    run(REPOSITORY / "tests/diffusion/reference.py", tiny, out, 7, SIZE, *extra)
    drawn = ask(both, adapter_names=list(folders), adapter_weights=weights)[0]
    assert abs(drawn - np.asarray(Image.open(out)).astype(int)).max() <= LAST_BIT
    assert abs(drawn - ask(both, model="comic")[0]).mean() > 1


def test_an_adapter_changes_the_picture_and_leaves_nothing_behind(server):
    before = ask(server)[0]
    assert abs(ask(server, model="comic")[0] - before).mean() > 1
    assert (ask(server)[0] == before).all()


@pytest.mark.soak  # it starts a server of its own, as the other soak tests here
def test_an_adapter_that_does_not_fit_is_the_clients_error(start, tiny):
    other = tiny / "adapters" / "strange"
    other.mkdir()
    (other / "pytorch_lora_weights.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    server = start(adapters={"strange": str(other)}, max_batch=1).ready()
    status, body, _ = server.ask(prompt="x", model="strange")
    assert (status, body["error"]["code"]) == (400, "cannot_be_drawn")
    assert ask(server)


@pytest.mark.soak
def test_eight_bits_of_the_text_encoder_change_the_picture_little(start, server):
    narrow = start(text_encoder_bits=8, max_batch=1, adapters={}).ready()
    assert abs(ask(narrow)[0] - ask(server)[0]).mean() < 8


@pytest.mark.soak  # tests/running/diffusion has several chips
def test_several_processes_draw_candidates_of_one_request(start, server):
    two = start(workers=2)
    two.until(lambda: two.metric('diffusion_workers{state="ready"}') == 2)
    drawn = ask(two, n=2)
    assert two.metric("diffusion_batch_images_sum") == 2
    assert two.metric("diffusion_batch_images_count") == 2
    assert abs(np.stack(drawn) - np.stack(ask(server, n=2))).max() <= LAST_BIT


def test_a_client_that_goes_ends_the_drawing_between_two_steps(server):
    cancelled = 'diffusion_images_total{model_name="flux",outcome="cancelled"}'
    before = server.metric(cancelled)
    leave = server.hang_up_on(prompt="x", num_inference_steps=100, n=8)  # one takes only 20 ms
    server.until(lambda: server.metric("diffusion_images_running") > 0)
    leave()
    server.until(lambda: server.metric("diffusion_images_running") == 0)
    assert server.metric(cancelled) > before
    assert ask(server)


@pytest.mark.soak  # tests/running/diffusion has the signal
def test_on_sigterm_the_picture_that_is_drawn_is_finished(start):
    server = start(max_batch=1).ready()
    drawing = server.begin(prompt="x", num_inference_steps=60)
    server.until(lambda: server.metric("diffusion_images_running") == 1)
    server.process.send_signal(signal.SIGTERM)
    assert pictures(drawing.result())
    assert server.process.wait(120) == 0
