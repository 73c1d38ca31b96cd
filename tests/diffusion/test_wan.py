"""Wan 2.1, against diffusers' own pipeline; a tiny model with random weights."""

import io
import json

import numpy as np
import pytest

from tests.diffusion.conftest import run
from tests.diffusion.refused import change, copied, refusals
from tests.diffusion.test_real_pipeline import LAST_BIT
from twin.host.paths import REPOSITORY

pytestmark = [pytest.mark.needs_tools, pytest.mark.needs_diffusion, pytest.mark.timeout(1800)]
WIDTH, HEIGHT = 64, 32
FRAMES, SHORT = 9, 5
DECODED = 3  # a frame, and four frames twice
STEPS = 4
_PLAY = """
import sys, av, numpy as np
with av.open(sys.argv[1]) as file:
    video = file.streams.video[0]
    told = [video.codec_context.name, str(video.average_rate), video.width, video.height]
    found = [frame.to_ndarray(format="rgb24") for frame in file.decode(video=0)]
np.save(sys.argv[2], np.stack(found))
print(*told)
"""
_ENCODED = """
import pathlib, sys, numpy as np
from diffusion.xla.video.mp4 import Mp4
rows, columns = np.mgrid[0:64, 0:96]
frames = np.stack([np.stack((rows * 3, columns * 2, rows + at), -1) for at in range(6)])
frames = frames.astype(np.uint8)
np.save(sys.argv[2], frames)
with Mp4(96, 64, 24) as file:
    file.add(frames[:1])
    file.add(frames[1:])
    pathlib.Path(sys.argv[1]).write_bytes(file.finish())
del sys.argv[2]
"""
_MISFITS = """
import sys, jax.numpy as jnp
from diffusion.config import from_dict
from diffusion.xla.keys import Key
from diffusion.xla.video.programs import FURTHER, UMT5, WanPrograms
settings = from_dict({"model": "wan", "folder": sys.argv[1], "max_batch": 1})
programs = WanPrograms(settings, jnp.bfloat16)
for stage in (UMT5, "step", FURTHER):
    wanted = programs.shapes(Key(stage, 1, 32, 64, frames=5))[0]
    loaded = programs.load(stage)
    print(*sorted({str(each.dtype) for each in loaded.values()}))
    for name in {*wanted, *loaded}:
        pair = wanted[name], loaded[name]
        if len({(each.shape, each.dtype) for each in pair}) != 1:
            print(stage, name, *pair)
"""


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A folder with a tiny pipeline and two adapters of it."""
    folder = tmp_path_factory.mktemp("base")
    people = ("--adapter", "ada", "--adapter", "bob")
    run("-m", "diffusion", "tiny", folder, "--family", "wan", *people)
    return folder


def options(folder):
    """Return the settings of a server."""
    return {
        "adapters": {},
        "folder": str(folder),
        "frames": [FRAMES, SHORT],
        "max_batch": 1,
        "model": "wan",
        "programs_folder": str(folder / "programs"),
        "sizes": [f"{WIDTH}x{HEIGHT}"],
        "steps": STEPS,
        "text_tokens": 16,
    }


@pytest.fixture(scope="module")
def compiled(base):
    """What `compile` says; the programs are in the settings' folder."""
    file = base / "compile.json"
    file.write_text(json.dumps({"platform": "cpu", **options(base)}))
    arguments = ("--config", file, "--chip", "cpu", "--out", base / "programs")
    return run("-m", "diffusion", "compile", *arguments)


@pytest.fixture(scope="module")
def server(start, base, compiled):
    """A server whose responses are frames, so that they can be compared exactly."""
    return start(**options(base), pipeline="tests.diffusion.exact_video:load").ready()


def ask(server, **body):
    """Return the frames of a video."""
    body = {"prompt": "a red bicycle", "seed": 7, **body}
    status, file, _ = server.post("/v1/videos/sync", **body)
    assert status == 200, file
    return np.load(io.BytesIO(file)).astype(int)


def people(folder):
    """Return the folders of the adapters."""
    return {name: str(folder / "adapters" / name) for name in ("ada", "bob")}


def drawn(base, out, videos):
    """Return the frames of diffusers' own pipeline by their names."""
    files = {name: str(out / f"{name}.npy") for name in videos}
    plain = {"frames": FRAMES, "guidance": 5.0, "negative": "", "steps": STEPS}
    asked = [{"out": files[name], **plain, **video} for name, video in videos.items()]
    script = REPOSITORY / "tests/diffusion/reference_wan.py"
    run(script, base, 7, WIDTH, HEIGHT, json.dumps(asked))
    return {name: np.load(file).astype(int) for name, file in files.items()}


@pytest.fixture(scope="module")
def expected(base, tmp_path_factory):
    """What diffusers' own pipeline generates for the requests of the tests."""
    videos = {
        "negative": {"guidance": 9.0, "negative": "grey fog"},
        "plain": {},
        "short": {"frames": SHORT, "steps": 20},
    }
    return drawn(base, tmp_path_factory.mktemp("references"), videos)


def test_the_frames_are_those_of_diffusers_own_pipeline(server, expected):
    generated = ask(server)
    assert generated.shape == (FRAMES, HEIGHT, WIDTH, 3)
    assert abs(generated - expected["plain"]).max() <= LAST_BIT
    page = server.get("/metrics")[1]
    assert f'diffusion_stage_seconds_count{{stage="denoise_step"}} {STEPS:.1f}' in page
    assert f'diffusion_stage_seconds_count{{stage="vae_decode"}} {DECODED:.1f}' in page
    assert abs(generated - ask(server, seed=8)).mean() > 10


def test_its_programs_are_compiled_in_advance_one_decoder_for_every_length(server, compiled):
    names = [line.partition(":")[0] for line in compiled.splitlines()]
    assert names == [
        "umt5-b1",
        "step-b1-64x32x9",
        "step-b1-64x32x5",
        "decode_first-b1-64x32",
        "decode_further-b1-64x32",
    ]
    said = server.log.read_text().splitlines()
    lines = [json.loads(line) for line in said if line.startswith("{")]
    ready = next(line for line in lines if line["message"] == "ready")
    assert ready["models"]["wan"]["programs"] == {"read": 5}


def test_a_negative_prompt_has_the_effect_that_it_has_in_diffusers(server, expected):
    generated = ask(server, negative_prompt="grey fog", guidance_scale=9)
    assert abs(generated - expected["negative"]).max() <= LAST_BIT
    assert abs(generated - ask(server, guidance_scale=9)).max() > LAST_BIT


def test_a_short_video_of_many_steps_is_the_one_of_diffusers(server, expected):
    generated = ask(server, num_frames=SHORT, num_inference_steps=20)
    assert generated.shape == (SHORT, HEIGHT, WIDTH, 3)
    assert abs(generated - expected["short"]).max() <= LAST_BIT


@pytest.mark.soak  # tests/running/diffusion has the requests; it starts a server of its own
def test_two_people_are_in_a_video_as_strongly_as_in_diffusers(start, base, tmp_path):
    folders, weights = people(base), (0.75, 0.5)
    paired = zip(folders, zip(folders.values(), weights, strict=True), strict=True)
    asked = {
        "one": {"adapters": {"ada": (folders["ada"], 1.0)}, "frames": SHORT},
        "two": {"adapters": dict(paired), "frames": SHORT},
    }
    alone, both = drawn(base, tmp_path, asked).values()
    more = {"adapters": folders, "frames": [SHORT], "max_adapters": 2, "programs_folder": ""}
    server = start(**{**options(base), **more}, pipeline="tests.diffusion.exact_video:load").ready()
    generated = ask(server, adapter_names=list(folders), adapter_weights=weights)
    assert abs(generated - both).max() <= LAST_BIT
    assert abs(ask(server, model="ada") - alone).max() <= LAST_BIT
    assert abs(alone - both).mean() > 1


@pytest.mark.soak  # a server of its own; test_sdxl.py has an image without guidance
def test_without_guidance_a_step_has_one_pass(start, base, tmp_path):
    asked = {"one": {"frames": SHORT, "guidance": 1.0}}
    expected = drawn(base, tmp_path, asked)["one"]
    given = {**options(base), "guidance": 1.0, "frames": [SHORT], "programs_folder": ""}
    quick = start(**given, pipeline="tests.diffusion.exact_video:load").ready()
    assert abs(ask(quick) - expected).max() <= LAST_BIT


def test_weights_for_a_tpu_have_the_formats_that_its_programs_are_compiled_for(base):
    assert run("-c", _MISFITS, base).splitlines() == ["bfloat16", "bfloat16 float32", "float32"]


def test_the_response_is_an_mp4_file_with_all_frames(start, base, compiled, tmp_path):
    server = start(**options(base)).ready()
    status, file, headers = server.post("/v1/videos/sync", prompt="a red bicycle", seed=7)
    assert (status, headers["Content-Type"]) == (200, "video/mp4")
    (tmp_path / "video.mp4").write_bytes(file)
    told = run("-c", _PLAY, tmp_path / "video.mp4", tmp_path / "frames.npy")
    assert told.split() == ["h264", "16", str(WIDTH), str(HEIGHT)]
    assert np.load(tmp_path / "frames.npy").shape == (FRAMES, HEIGHT, WIDTH, 3)
    encoded = 'diffusion_stage_seconds_count{stage="video_encode"} 1.0'
    assert encoded in server.get("/metrics")[1]


def test_an_mp4_file_plays_what_was_encoded(tmp_path):
    file, before, after = (tmp_path / name for name in ("a.mp4", "before.npy", "after.npy"))
    assert run("-c", _ENCODED + _PLAY, file, before, after).split() == ["h264", "24", "96", "64"]
    shown, played = (np.load(each).astype(int) for each in (before, after))
    assert shown.shape == played.shape
    assert abs(shown - played).mean() < 3


REFUSED = [
    (
        "scheduler/scheduler_config.json",
        {"solver_order": 3},
        "scheduler_config.json: solver_order: must be 2 or unset for Wan 2.1, got 3",
    ),
    (
        "model_index.json",
        {"boundary_ratio": 0.875},
        "model_index.json: boundary_ratio: must be unset for Wan 2.1, got 0.875",
    ),
    (
        "settings.json",
        {"sizes": ["64x40"]},
        "sizes: must be multiples of 16 for Wan 2.1, got 64x40",
    ),
]


def test_a_model_or_a_size_that_needs_other_code_is_refused(base, tmp_path):
    folders = []
    for file, changed, _ in REFUSED:
        folders.append(tmp_path / str(len(folders)))
        given = ("transformer/config.json",), ("text_encoder", "vae"), options(folders[-1])
        copied(base, folders[-1], *given)
        change(folders[-1] / file, changed)
    assert refusals(folders) == [words for _, _, words in REFUSED]


@pytest.mark.soak  # it starts a server of its own, as the other soak tests of this folder
def test_a_text_encoder_in_eight_bits_generates_nearly_the_same(start, server, base):
    given = {**options(base), "text_encoder_bits": 8, "programs_folder": ""}
    narrow = start(**given, pipeline="tests.diffusion.exact_video:load").ready()
    difference = abs(ask(narrow) - ask(server))
    assert 0 < difference.mean() < 2
