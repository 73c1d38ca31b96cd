"""Images that change an image, asked for with OpenAI's own client."""

import base64
import hashlib
import http.client
import json
from contextlib import closing

import openai
import pytest

from tests.unit.diffusion.images import FORM, file, form, mask, url

pytestmark = pytest.mark.needs_tools  # server and workers as processes
EDITS = "/v1/images/edits"


def drawn(answer):
    return [json.loads(base64.b64decode(each.b64_json)) for each in answer.data]


def sent_image(color):
    """Return what the fake pipeline writes about an image of 64x64 pixels."""
    pixels = bytes(color) * 64 * 64
    return hashlib.sha256(base64.b64encode(pixels)).hexdigest()


def test_openais_client_sends_an_image_and_its_mask_and_gets_candidates(server):
    client = server.client()
    answer = client.images.edit(
        model="flux",
        image=("red.png", file(), "image/png"),
        mask=mask(),
        prompt="a red bicycle",
        n=2,
        size="64x64",
        output_format="png",
        response_format="b64_json",
        extra_body={"seed": 7, "strength": 0.5},
    )
    found = drawn(answer)
    assert [(each["prompt"], each["seed"]) for each in found] == [
        ("a red bicycle", 7),
        ("a red bicycle", 8),
    ]
    assert {each["edit"] for each in found} == {sent_image((255, 0, 0))}
    assert [each.seed for each in answer.data] == [7, 8]


def test_openais_client_sends_a_list_of_images_and_reads_events(server):
    client = server.client()
    events = list(
        client.images.edit(
            model="flux",
            image=[file(color="blue")],
            prompt="x",
            stream=True,
            partial_images=1,
            extra_body={"num_inference_steps": 8},
        )
    )
    assert [each.type for each in events] == ["image_edit.partial_image", "image_edit.completed"]
    # five of eight steps run with a strength of 0.6: a preview after two
    assert base64.b64decode(events[0].b64_json) == b"step 2"
    whole = json.loads(base64.b64decode(events[1].b64_json))
    assert whole["edit"] == sent_image((0, 0, 255))


def test_json_has_data_urls(server):
    status, body, _ = server.post(EDITS, prompt="x", images=[url(file())])
    image = json.loads(base64.b64decode(json.loads(body)["data"][0]["b64_json"]))
    assert (status, image["edit"]) == (200, sent_image((255, 0, 0)))


def test_images_that_differ_share_no_batch(server):
    both = [
        server._threads.submit(server.post, EDITS, prompt="x", images=[url(file(color=c))])
        for c in ("red", "blue")
    ]
    images = [json.loads(each.result()[1])["data"][0]["b64_json"] for each in both]
    found = [json.loads(base64.b64decode(each)) for each in images]
    assert [each["edit"] for each in found] == [sent_image((255, 0, 0)), sent_image((0, 0, 255))]
    assert {each["batch"] for each in found} == {1}


def test_errors_have_openais_form(server):
    client, refused = server.client(), 'diffusion_requests_total{code="400"}'
    before = server.metric(refused) or 0
    with pytest.raises(openai.BadRequestError) as found:
        client.images.edit(model="flux", image=file(), mask=file(), prompt="x")
    assert found.value.param == "mask"
    with pytest.raises(openai.NotFoundError) as found:
        client.images.edit(model="other", image=file(), prompt="x")
    assert found.value.code == "model_not_found"
    assert server.metric(refused) == before + 1


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_over_the_limit_of_edits_is_refused_with_413(serve, is_chunked):
    server = serve(max_edit_bytes=2 * 2**20).ready()
    body = form(("prompt", "x"), ("image", file() + bytes(2 * 2**20)))
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    pieces = iter([body[:1000], body[1000:]]) if is_chunked else body
    with closing(connection):
        connection.request(
            "POST", EDITS, pieces, {"Content-Type": FORM[0]}, encode_chunked=is_chunked
        )
        answer = connection.getresponse()
        assert answer.status == 413
        assert json.loads(answer.read())["error"]["code"] == "request_too_large"
