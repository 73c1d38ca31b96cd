import json
import re
from typing import Any

import pytest

from workloads.diffusion.adapters import Adapter, find
from workloads.diffusion.config import from_dict
from workloads.diffusion.protocol import ApiError, parse
from workloads.diffusion.training import Training, read

SERVER = {"model": "flux", "folder": "/weights"}
RUN: dict[str, Any] = {
    "adapter": "/a",
    "folder": "/w",
    "images": "/i",
    "prompt": "a dog",
    "work": "/t",
}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sigmas": [0.5, 0.6]}, "sigmas: must be up to 100 strictly decreasing numbers"),
        ({"sigmas": [1.5, 0.5]}, "sigmas: must be up to 100 strictly decreasing numbers"),
        ({"sigmas": [1, 0]}, "sigmas: must be up to 100 strictly decreasing numbers"),
        ({"sigmas": [1, 0.5], "steps": 3}, "steps: must be 0 or the 2 of sigmas, got 3"),
        ({"sigmas": [1, 0.5], "step_cache": 0.1}, "step_cache: must be 0 when sigmas are set"),
        ({"step_cache": 1}, "step_cache: must be at least 0 and below 1, got 1"),
        ({"live_rank": 129}, "live_rank: must be from 1 to 128, got 129"),
    ],
)
def test_settings_that_cannot_work_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        from_dict({**SERVER, **given})


def test_each_sigma_is_a_step_and_no_request_has_another_number():
    settings = from_dict({**SERVER, "sigmas": [1, 0.65, 0.3]})
    assert parse({"prompt": "x"}, settings).steps == 3
    with pytest.raises(ApiError, match="must be 3, as the model was distilled to, got 4"):
        parse({"prompt": "x", "num_inference_steps": 4}, settings)


def sdxl(folder, **schedule):
    """Write the files that tell the family of a model, and return the settings of a server."""
    for name, given in (("unet/config.json", {}), ("scheduler/scheduler_config.json", schedule)):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(given))
    return {"model": "xl", "folder": str(folder)}


@pytest.mark.parametrize(
    ("spacing", "guidance", "found"),
    [
        ("leading", None, (20, 5.0, True, 100.0)),
        ("leading", 1.0, (20, 1.0, False, 1.0)),
        ("trailing", None, (4, 0.0, False, 1.0)),
        ("trailing", 2.0, (4, 2.0, True, 100.0)),
    ],
)
def test_stable_diffusion_xl_has_guidance_unless_it_was_distilled(
    tmp_path, spacing, guidance, found
):
    settings = from_dict({**sdxl(tmp_path, timestep_spacing=spacing), "guidance": guidance})
    asked = parse({"prompt": "x"}, settings)
    assert (asked.steps, asked.guidance, settings.is_guided, settings.most_guidance) == found


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"step_cache": 0.1},
            "step_cache: must be 0 for Stable Diffusion XL: a UNet has no first block whose "
            "output others reuse, got 0.1",
        ),
        (
            {"sigmas": [1, 0.5]},
            "sigmas: must be empty for Stable Diffusion XL: the schedule is in the model's "
            "scheduler_config.json, got [1.0, 0.5]",
        ),
    ],
)
def test_what_stable_diffusion_xl_cannot_have_is_refused_also_as_a_further_model(
    tmp_path, given, message
):
    alone = sdxl(tmp_path)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        from_dict({**alone, **given}).check_families()
    shared = {"step_cache": given.get("step_cache", 0.0)}
    beside = {**alone, "sigmas": given.get("sigmas", [])}
    with pytest.raises(ValueError, match=f"^base_models: xl: {re.escape(message)}$"):
        from_dict({**SERVER, **shared, "base_models": [beside]}).check_families()


@pytest.mark.parametrize(("rank", "compiled"), [(1, 4), (8, 8), (100, 128)])
def test_live_adapters_are_padded_to_the_next_rank_that_is_compiled(rank, compiled):
    assert from_dict({**SERVER, "live_rank": rank}).live_program_rank == compiled


@pytest.mark.parametrize(
    ("most", "given", "ranks"),
    [(1, [], [16]), (1, [32], [16, 32]), (3, [], [16, 64]), (8, [4], [4, 16, 128])],
)
def test_programs_are_compiled_for_each_rank_and_for_those_of_several_adapters(most, given, ranks):
    settings = from_dict({**SERVER, "live_adapters": "/live", "max_adapters": most})
    assert settings.program_ranks(given) == ranks
    assert from_dict({**SERVER, "max_adapters": most}).program_ranks([]) == []


def test_an_adapter_of_the_settings_comes_before_a_live_one_and_no_path_is_a_name(tmp_path):
    for name in ("comic", "alice", "flux", "Bob"):
        (tmp_path / "live" / name).mkdir(parents=True)
        (tmp_path / "live" / name / "w.safetensors").touch()
    live = {"adapters": {"comic": "/comic"}, "live_adapters": str(tmp_path / "live")}
    settings = from_dict({**SERVER, **live})
    assert find(settings, "comic") == Adapter("comic", "/comic")
    alice = find(settings, "alice")
    assert alice is not None
    assert alice.folder == str(tmp_path / "live" / "alice")
    for name in ("flux", "Bob", "../live/alice", "alice/", "", ".", "a" * 41):
        assert find(settings, name) is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rank": 5}, "rank: must be one of 4, 8, 16, 32, 64, 128, got 5"),
        ({"steps": 0}, "steps: must be at least 1, got 0"),
        ({"learning_rate": 0}, "learning_rate: must be above 0 and below 1, got 0"),
        ({"platform": "gpu"}, "platform: must be cpu or tpu, got 'gpu'"),
        ({"prompt": " "}, "prompt: must be a non-empty string"),
        ({"size": "big"}, "size: must be WIDTHxHEIGHT, got 'big'"),
        ({"size": "1000x1000"}, "size: must be multiples of 16, from 16, got 1000x1000"),
        ({"size": "0x0"}, "size: must be multiples of 16, from 16, got 0x0"),
        ({"size": "1024x8"}, "size: must be multiples of 16, from 16, got 1024x8"),
        ({"text_tokens": 0}, "text_tokens: must be from 1 to 512, got 0"),
        ({"text_tokens": 513}, "text_tokens: must be from 1 to 512, got 513"),
        ({"guidance": -1}, "guidance: must be at least 0, got -1"),
        ({"guidance": float("nan")}, "guidance: must be at least 0, got nan"),
        ({"steps": "500"}, "steps: must be a whole number, got '500'"),
        ({"batch": True}, "batch: must be a whole number, got True"),
        ({"learning_rate": "1e-4"}, "learning_rate: must be a number, got '1e-4'"),
        ({"folder": ["/w"]}, r"folder: must be a string, got \['/w'\]"),
        ({"adapter": "/live/Alice"}, "adapter: must end with a name of .* got '/live/Alice'"),
        ({"adapter": "/live/" + "a" * 41}, "adapter: must end with a name of at most 40"),
    ],
)
def test_a_run_that_cannot_work_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        Training(**{**RUN, **given})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"folder": "/w"}', "images: must be set, got nothing"),
        ('{"step": 3}', "step: no such setting"),
        ("[3]", r"train.json: must be a JSON object, got \[3\]"),
    ],
)
def test_a_file_of_another_shape_is_refused(tmp_path, text, message):
    file = tmp_path / "train.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=message):
        read(file)


def test_a_checkpoint_belongs_to_the_settings_and_the_contents_of_the_images(tmp_path):
    (tmp_path / "a.png").write_bytes(b"one")
    images: dict[str, Any] = {"images": str(tmp_path)}
    run = Training(**RUN | images)
    assert Training(**RUN | images | {"work": "/other"}).digest() == run.digest()
    before = run.digest()
    (tmp_path / "a.png").write_bytes(b"two")
    assert run.digest() != before
    changes: list[dict[str, Any]] = [{"seed": 1}, {"folder": "/w/next-version"}]
    for changed in changes:
        assert Training(**RUN | images | changed).digest() != run.digest()
