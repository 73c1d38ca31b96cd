"""Previews and images as events, read with OpenAI's own client."""

import base64
import json

import openai
import pytest

pytestmark = pytest.mark.needs_tools  # server and workers as processes


def events(server, **body):
    return server.client().images.generate(model="flux", stream=True, **body)


def test_each_candidate_is_previewed_as_often_as_asked_before_it_is_finished(server):
    steps = {"extra_body": {"num_inference_steps": 8, "seed": 7}}
    got = list(events(server, prompt="a red bicycle", n=2, partial_images=3, **steps))
    previews = [each for each in got if each.type == "image_generation.partial_image"]
    whole = [each for each in got if each.type == "image_generation.completed"]
    assert [(each.partial_image_index, each.seed) for each in previews] == [
        (index, seed) for index in (0, 1, 2) for seed in (7, 8)
    ]
    assert [base64.b64decode(each.b64_json).decode() for each in previews[::2]] == [
        f"step {number}" for number in (2, 4, 6)
    ]
    assert got[-2:] == whole
    assert [json.loads(base64.b64decode(each.b64_json))["seed"] for each in whole] == [7, 8]
    assert {(each.size, each.output_format) for each in got} == {("64x64", "png")}


def test_a_candidate_that_is_finished_waits_for_no_other(serve, tmp_path):
    server = serve(max_batch=1).ready()
    gate = tmp_path / "gate"
    held = iter(events(server, prompt=f"hold-seed-8 {gate}", n=2, extra_body={"seed": 7}))
    first = next(held)
    assert (first.type, first.seed) == ("image_generation.completed", 7)
    assert server.metric("diffusion_images_running") == 1
    gate.touch()
    assert [each.seed for each in held] == [8]


def test_a_preview_arrives_while_its_image_is_still_being_drawn(server, tmp_path):
    gate = tmp_path / "gate"
    found = iter(events(server, prompt=f"hold-from-step-3 {gate}", partial_images=1))
    assert next(found).type == "image_generation.partial_image"
    assert server.metric("diffusion_images_running") == 1
    gate.touch()
    assert [each.type for each in found] == ["image_generation.completed"]


def test_a_client_that_has_seen_enough_frees_the_chip(server, tmp_path):
    cancelled = 'diffusion_images_total{model_name="flux",outcome="cancelled"}'
    before = server.metric(cancelled) or 0
    found = events(server, prompt=f"hold-from-step-3 {tmp_path / 'never'}", partial_images=1)
    next(iter(found))
    found.close()
    server.until(lambda: server.metric("diffusion_images_running") == 0)
    assert server.metric(cancelled) == before + 1


def test_what_is_refused_before_the_first_event_has_its_status(server):
    with pytest.raises(openai.BadRequestError, match="adapter: must fit this model"):
        list(events(server, prompt="refuse"))


def test_what_fails_after_an_event_ends_the_stream_with_an_error(server):
    found = iter(events(server, prompt="die-at-step-3", partial_images=1))
    assert next(found).type == "image_generation.partial_image"
    with pytest.raises(openai.APIError, match="the image could not be generated"):
        next(found)


def test_a_candidate_that_was_sent_before_another_failed_counts_as_drawn(serve, tmp_path):
    server = serve(max_batch=1).ready()
    found = iter(events(server, prompt="die-at-seed-8", n=2, extra_body={"seed": 7}))
    assert next(found).seed == 7
    with pytest.raises(openai.APIError, match="the image could not be generated"):
        next(found)
    for outcome in ("drawn", "failed"):
        count = f'diffusion_images_total{{model_name="flux",outcome="{outcome}"}}'
        assert server.metric(count) == 1
