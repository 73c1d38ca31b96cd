import pytest

from workloads.diffusion.adapters import Adapter, Weighted
from workloads.diffusion.config import from_dict
from workloads.diffusion.protocol import ApiError, parse

SETTINGS = from_dict(
    {
        "model": "flux",
        "folder": "/weights",
        "adapters": {"comic": "/comic", "noir": "/noir"},
        "max_adapters": 2,
        "base_models": [{"model": "mini", "folder": "/mini", "steps": 2, "text_tokens": 256}],
        "max_candidates": 4,
        "sizes": ["1024x1024", "512x768"],
        "steps": 4,
    }
)


def with_base(adapters=(), **changed):
    """Return settings with a further model."""
    base = {"model": "b", "folder": "/b", **changed}
    return {"model": "m", "folder": "/w", "adapters": dict(adapters), "base_models": [base]}


def test_what_a_request_does_not_say_is_the_servers_setting():
    asked = parse({"prompt": "a red bicycle"}, SETTINGS)
    assert (asked.model, asked.adapters, asked.count, asked.steps) == ("flux", (), 1, 4)
    assert (asked.width, asked.height, asked.format) == (1024, 1024, "png")


def test_two_requests_without_a_seed_do_not_draw_the_same_picture():
    seeds = {parse({"prompt": "x"}, SETTINGS).seed for _ in range(8)}
    assert len(seeds) > 1


def test_everything_a_request_may_say_is_taken():
    body = {
        "guidance_scale": 2,
        "model": "comic",
        "n": 4,
        "num_inference_steps": 8,
        "output_format": "jpeg",
        "prompt": "x",
        "response_format": "b64_json",
        "seed": 5,
        "size": "512x768",
        "user": "me",
    }
    asked = parse(body, SETTINGS)
    assert (asked.model, asked.count, asked.steps) == ("comic", 4, 8)
    assert asked.adapters == (Weighted(Adapter("comic", "/comic")),)
    assert (asked.width, asked.height, asked.format) == (512, 768, "jpeg")
    assert (asked.seed, asked.guidance) == (5, 2)


def test_a_further_model_has_its_own_steps():
    asked = parse({"prompt": "x", "model": "mini"}, SETTINGS)
    assert (asked.model, asked.base, asked.adapters, asked.steps) == ("mini", "mini", (), 2)


def test_an_adapter_is_drawn_with_the_first_model():
    asked = parse({"prompt": "x", "model": "comic"}, SETTINGS)
    assert (asked.base, asked.steps) == ("flux", 4)


def test_a_request_may_name_several_adapters_and_the_weight_of_each():
    body = {"prompt": "x", "adapter_names": ["noir", "comic"], "adapter_weights": [0.5, -1]}
    asked = parse(body, SETTINGS)
    noir, comic = Adapter("noir", "/noir"), Adapter("comic", "/comic")
    assert (asked.model, asked.adapters) == ("flux", (Weighted(noir, 0.5), Weighted(comic, -1.0)))
    alone = parse({"prompt": "x", "adapter_names": ["comic"]}, SETTINGS)
    assert alone.adapters == (Weighted(comic, 1.0),)


def test_a_further_model_shares_what_it_does_not_set():
    assert list(SETTINGS.bases) == ["flux", "mini"]
    mini = SETTINGS.bases["mini"]
    assert (mini.folder, mini.text_tokens, mini.steps) == ("/mini", 256, 2)
    assert (mini.sizes, mini.max_batch, mini.adapters) == (SETTINGS.sizes, SETTINGS.max_batch, {})


@pytest.mark.parametrize(
    ("body", "status", "field", "words"),
    [
        ([], 400, None, "JSON object"),
        ({}, 400, "prompt", "non-empty"),
        ({"prompt": "  "}, 400, "prompt", "non-empty"),
        ({"prompt": "x" * 32_001}, 400, "prompt", "at most 32000"),
        ({"prompt": "half a character \ud83d"}, 400, "prompt", "must be valid Unicode"),
        ({"prompt": "x", "model": "gpt-9"}, 404, "model", "'gpt-9' does not exist"),
        ({"prompt": "x", "n": 5}, 400, "n", "from 1 to 4"),
        ({"prompt": "x", "n": True}, 400, "n", "a whole number"),
        ({"prompt": "x", "n": 1.5}, 400, "n", "a whole number"),
        ({"prompt": "x", "size": "512x512"}, 400, "size", "1024x1024, 512x768"),
        ({"prompt": "x", "response_format": "url"}, 400, "response_format", "b64_json"),
        ({"prompt": "x", "output_format": "gif"}, 400, "output_format", "png, jpeg"),
        ({"prompt": "x", "num_inference_steps": 0}, 400, "num_inference_steps", "from 1 to 100"),
        ({"prompt": "x", "guidance_scale": "3"}, 400, "guidance_scale", "a number"),
        ({"prompt": "x", "seed": -1}, 400, "seed", "from 0"),
        ({"prompt": "x", "stream": "yes"}, 400, "stream", "must be true or false, got 'yes'"),
        (
            {"prompt": "x", "stream": True, "partial_images": 4},
            400,
            "partial_images",
            "from 0 to 3",
        ),
        ({"prompt": "x", "partial_images": 1}, 400, "partial_images", "0 unless stream is true"),
        ({"prompt": "x", "quality": "high"}, 400, "quality", "no such field"),
        ({"prompt": "x", "adapter_names": "comic"}, 400, "adapter_names", "a list of names"),
        ({"prompt": "x", "adapter_names": []}, 400, "adapter_names", "a list of names, got []"),
        ({"prompt": "x", "adapter_names": ["comic"] * 2}, 400, "adapter_names", "unique"),
        ({"prompt": "x", "adapter_names": ["a", "b", "c"]}, 400, "adapter_names", "most 2, got 3"),
        ({"prompt": "x", "adapter_names": ["a"]}, 404, "adapter_names", "'a' does not exist"),
        ({"prompt": "x", "adapter_weights": [1]}, 400, "adapter_weights", "without adapter_names"),
        (
            {"prompt": "x", "adapter_names": ["comic"], "adapter_weights": 0.5},
            400,
            "adapter_weights",
            "must be a list of 1, as adapter_names, got 0.5",
        ),
        (
            {"prompt": "x", "adapter_names": ["comic"], "adapter_weights": [11]},
            400,
            "adapter_weights",
            "from -10 to 10, got 11",
        ),
        (
            {"prompt": "x", "model": "mini", "adapter_names": ["comic"]},
            400,
            "adapter_names",
            "must not be set unless model is 'flux', got 'mini'",
        ),
        (
            {"prompt": "x", "model": "comic", "adapter_names": ["noir"]},
            400,
            "adapter_names",
            "must not be set unless model is 'flux', got 'comic'",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_in_openais_shape(body, status, field, words):
    with pytest.raises(ApiError) as refused:
        parse(body, SETTINGS)
    assert refused.value.status == status
    error = refused.value.body()["error"]
    assert (error["param"], error["type"]) == (field, "invalid_request_error")
    assert words in error["message"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"folder": "/w"}, "model: must be set"),
        ({"model": "m"}, "folder: must be set"),
        ({"model": "m", "folder": "/w", "cores": 4}, "cores: no such setting"),
        ({"model": "m", "folder": "/w", "workers": 0}, "workers: must be at least 1, got 0"),
        ({"model": "m", "folder": "/w", "sizes": ["big"]}, "sizes: must be WIDTHxHEIGHT"),
        ({"model": "m", "folder": "/w", "sizes": []}, "sizes: must have at least one"),
        ({"model": "m", "folder": "/w", "platform": "gpu"}, "platform: must be cpu or tpu"),
        ({"model": "m", "folder": "/w", "adapters": {"m": "/a"}}, "must not have the model's"),
        (with_base(model="m"), "base_models: must have unique names, got 'm'"),
        (with_base(adapters={"b": "/a"}), "must not have the model's name, got 'b'"),
        (with_base(folder=""), "base_models.folder: must be set"),
        (with_base(guidance=3), "base_models.guidance: no such setting"),
        (
            with_base(chips=1),
            r"chips: must be at least 1 for every model, or 0 for all, got \[0, 1\]",
        ),
        (
            {**with_base(chips=2), "chips": 1, "workers": 4},
            r"chips: must add up to the 4 of workers over all models, got \[1, 2\]",
        ),
        (with_base(chips=True), "base_models.chips: must be a whole number, at least 0, got True"),
        (with_base(folder=3), "base_models.folder: must be a string, got 3"),
        (with_base(steps="4"), "base_models.steps: must be a whole number, at least 0, got '4'"),
        (with_base(sigmas="1"), "base_models.sigmas: must be a list of numbers, got '1'"),
        (with_base(sigmas=[None]), r"base_models.sigmas: must be a list of numbers, got \[None\]"),
        (with_base(sigmas=[0.5, 1]), "base_models: b: sigmas: must be up to"),
        ({"model": "m", "folder": "/w", "max_adapters": 0}, "max_adapters: must be at least 1"),
        (
            {"model": "m", "folder": "/w", "live_adapters": "/l", "max_adapters": 9},
            "max_adapters: must be at most 8 with live adapters of rank 16, got 9",
        ),
        (
            {"model": "m", "folder": "/w", "adapters": {"a": "/a"}, "adapter_slots": 0},
            "adapter_slots: must be at least 1, got 0",
        ),
    ],
)
def test_settings_that_cannot_work_are_refused(given, words):
    with pytest.raises(ValueError, match=words):
        from_dict(given)


def test_batches_are_compiled_for_powers_of_two_and_the_largest():
    six = from_dict({"model": "m", "folder": "/w", "max_batch": 6})
    assert six.batches == (1, 2, 4, 6)
    assert [six.padded(count) for count in range(1, 7)] == [1, 2, 4, 4, 6, 6]
