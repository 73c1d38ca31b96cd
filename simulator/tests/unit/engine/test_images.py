"""Images in messages to the simulated engine."""

import base64
import io
from typing import Any

import pytest
from PIL import Image

from simulator.engine.settings import EngineError
from simulator.server.bodies.text import tokenize
from simulator.tests.unit.engine.support import deployment
from simulator.tests.unit.engine.test_api import post

CHAT = "/v1/chat/completions"
QWEN, GEMMA = "Qwen/Qwen2.5-VL-7B-Instruct", "google/gemma-3-4b-it"


def url(width: int = 280, height: int = 280, color: str = "red") -> str:
    held = io.BytesIO()
    Image.new("RGB", (width, height), color).save(held, "PNG")
    return "data:image/png;base64," + base64.b64encode(held.getvalue()).decode()


def ask(model: str, *urls: str, path: str = CHAT, flags: tuple[str, ...] = ()) -> Any:
    parts: list[Any] = [{"type": "image_url", "image_url": {"url": each}} for each in urls]
    content = [{"type": "text", "text": "What is this?"}, *parts]
    body = {"messages": [{"role": "user", "content": content}], "max_tokens": 4}
    if path == "/tokenize":
        del body["max_tokens"]
    return post(deployment(*flags, model=model), path, body)[1]


@pytest.mark.parametrize(
    ("model", "width", "height", "tokens"),
    [
        (QWEN, 280, 280, 102),  # ten squares of 28 pixels a side, and two markers
        (QWEN, 1120, 560, 802),
        (QWEN, 20, 20, 6),  # enlarged to 56 by 56
        (QWEN, 14000, 1400, 16162),  # reduced to at most 12,845,056 pixels
        (GEMMA, 280, 280, 260),
        (GEMMA, 1400, 700, 260),
    ],
)
def test_an_image_takes_the_tokens_that_the_models_processor_makes_of_it(
    model: str, width: int, height: int, tokens: int
):
    alone = ask(model, path="/tokenize")["count"]
    counted = ask(model, url(width, height), path="/tokenize")["count"]
    assert counted - alone == tokens


def test_a_chat_counts_its_images_in_the_usage():
    with_image, without = (ask(QWEN, *urls)["usage"] for urls in ([url()], []))
    assert with_image["prompt_tokens"] - without["prompt_tokens"] == 102


def test_the_same_image_has_the_same_tokens_and_another_one_others():
    one, same, other = (
        ask(QWEN, url(color=color), path="/tokenize")["tokens"] for color in ("red", "red", "blue")
    )
    assert one == same != other


@pytest.mark.parametrize(
    ("model", "urls", "problem"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", [url()], "is not a multimodal model"),
        ("meta-llama/Llama-3.2-11B-Vision-Instruct", [url()], "not available on a simulated"),
        (QWEN, ["https://example.com/cat.png"], "must be a base64 data URL, got 'https://exa"),
        (QWEN, ["data:image/png;base64,AAAA"], "cannot identify image file"),
        (QWEN, ["data:image/png;base64,%%"], ""),
        (QWEN, ["data:image/png;base64"], "missing ',' separator"),
        (QWEN, [url(8400, 28)], "aspect ratio must be smaller than 200, got 300.0"),
        (QWEN, [url()] * 3, "At most 2 image(s) may be provided in one prompt. (parameter=image)"),
    ],
)
def test_an_image_that_cannot_be_read_is_refused(model: str, urls: list[str], problem: str):
    flags = ("--limit-mm-per-prompt", '{"image": 2}')
    answer = ask(model, *urls, flags=flags)
    assert answer["error"]["code"] == 400
    assert problem in answer["error"]["message"]


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ((), "video_url in messages is not available"),
        (
            ("--limit-mm-per-prompt", '{"video": 0}'),
            "At most 0 video(s) may be provided in one prompt. (parameter=video)",
        ),
    ],
)
def test_other_media_are_refused_for_a_model_that_sees(flags: tuple[str, ...], problem: str):
    part = {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}}
    body = {"messages": [{"role": "user", "content": [part]}]}
    status, answer = post(deployment(*flags, model=QWEN), CHAT, body)
    assert status == 400
    assert problem in answer["error"]["message"]


def test_an_image_from_a_host_that_is_not_allowed_is_not_fetched():
    flags = ("--allowed-media-domains", "none.invalid")
    answer = ask(QWEN, "http://169.254.169.254/cat.png", flags=flags)
    assert answer["error"]["message"] == (
        "The URL must be from one of the allowed domains: ['none.invalid']. Input URL domain: "
        "169.254.169.254"
    )


def test_an_address_that_cannot_be_read_is_refused_too():
    flags = ("--allowed-media-domains", "none.invalid")
    answer = ask(QWEN, "http://[::1/cat.png", flags=flags)
    assert answer["error"]["code"] == 400
    assert answer["error"]["message"] == "Failed to parse: http://[::1/cat.png"


def test_the_template_of_a_flag_makes_the_prompt_also_around_images():
    text = "{% for message in messages %}[{{ message.role }}] {{ message.content }}{% endfor %}"
    flags = ("--chat-template", text)
    plain, seen = (ask(QWEN, *urls, path="/tokenize", flags=flags) for urls in ([], [url()]))
    assert plain["tokens"] == tokenize("[user] What is this?")
    assert seen["count"] - plain["count"] == 102


def test_a_template_that_refuses_a_conversation_gives_its_reason():
    text = "{{ raise_exception('roles must alternate: ' ~ messages | length) }}"
    answer = ask(QWEN, flags=("--chat-template", text))
    assert answer["error"]["code"] == 400
    assert answer["error"]["message"] == "roles must alternate: 1"


def test_an_engine_whose_template_is_not_there_does_not_start():
    with pytest.raises(EngineError, match=r"\(/no/chat.jinja\) appears path-like"):
        deployment("--chat-template", "/no/chat.jinja")
