"""Wan 2.1, against diffusers' own pipeline; a tiny model with random weights."""

import io
import json

import numpy as np
import pytest

from tests.diffusion.conftest import run
from tests.diffusion.test_real_pipeline import LAST_BIT
from twin.host.paths import REPOSITORY

pytestmark = [pytest.mark.needs_tools, pytest.mark.needs_diffusion, pytest.mark.timeout(1800)]
WIDTH, HEIGHT = 64, 32
FRAMES, SHORT = 13, 5
STEPS = 4
_PLAYED = """
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


def reference(folder, out, *extra, frames=FRAMES, guidance=5.0, steps=STEPS):
    """Return the frames of diffusers' own pipeline."""
    given = (folder, out, 7, WIDTH, HEIGHT, frames, "--steps", steps, "--guidance", guidance)
    run(REPOSITORY / "tests/diffusion/reference_wan.py", *given, *extra)
    return np.load(out).astype(int)


def test_the_frames_are_those_of_diffusers_own_pipeline(server, base, tmp_path):
    expected = reference(base, tmp_path / "reference.npy")
    generated = ask(server)
    assert generated.shape == (FRAMES, HEIGHT, WIDTH, 3)
    assert abs(generated - expected).max() <= LAST_BIT
    assert abs(generated - ask(server, seed=8)).mean() > 10


def test_its_programs_are_compiled_in_advance_one_decoder_for_every_length(server, compiled):
    names = [line.partition(":")[0] for line in compiled.splitlines()]
    assert names == [
        "umt5-b1",
        "step-b1-64x32x13",
        "step-b1-64x32x5",
        "decode_first-b1-64x32",
        "decode_further-b1-64x32",
    ]
    said = server.log.read_text().splitlines()
    lines = [json.loads(line) for line in said if line.startswith("{")]
    ready = next(line for line in lines if line["message"] == "ready")
    assert ready["models"]["wan"]["programs"] == {"read": 5}


def test_a_negative_prompt_has_the_effect_that_it_has_in_diffusers(server, base, tmp_path):
    extra = ("--negative", "grey fog")
    expected = reference(base, tmp_path / "reference.npy", *extra, guidance=9.0)
    generated = ask(server, negative_prompt="grey fog", guidance_scale=9)
    assert abs(generated - expected).max() <= LAST_BIT
    assert abs(generated - ask(server, guidance_scale=9)).max() > LAST_BIT


def test_a_short_video_of_many_steps_is_the_one_of_diffusers(server, base, tmp_path):
    expected = reference(base, tmp_path / "reference.npy", frames=SHORT, steps=20)
    generated = ask(server, num_frames=SHORT, num_inference_steps=20)
    assert generated.shape == (SHORT, HEIGHT, WIDTH, 3)
    assert abs(generated - expected).max() <= LAST_BIT


@pytest.mark.soak  # tests/running/diffusion has the requests; it starts a server of its own
def test_two_people_are_in_a_video_as_strongly_as_in_diffusers(start, base, tmp_path):
    folders = {name: str(base / "adapters" / name) for name in ("ada", "bob")}
    more = {"adapters": folders, "frames": [SHORT], "max_adapters": 2, "programs_folder": ""}
    server = start(**{**options(base), **more}, pipeline="tests.diffusion.exact_video:load").ready()
    both = [f"--adapter={folder}" for folder in folders.values()]
    weights = (0.75, 0.5)
    extra = [*both, *(f"--weight={each}" for each in weights)]
    expected = reference(base, tmp_path / "both.npy", *extra, frames=SHORT)
    generated = ask(server, adapter_names=list(folders), adapter_weights=weights)
    assert abs(generated - expected).max() <= LAST_BIT
    alone = reference(base, tmp_path / "ada.npy", both[0], frames=SHORT)
    assert abs(ask(server, model="ada") - alone).max() <= LAST_BIT
    assert abs(alone - expected).mean() > 1


def test_without_guidance_a_step_has_one_pass(start, base, tmp_path):
    given = {**options(base), "guidance": 1.0, "frames": [SHORT], "programs_folder": ""}
    quick = start(**given, pipeline="tests.diffusion.exact_video:load").ready()
    expected = reference(base, tmp_path / "reference.npy", frames=SHORT, guidance=1.0)
    assert abs(ask(quick) - expected).max() <= LAST_BIT


def test_weights_for_a_tpu_have_the_formats_that_its_programs_are_compiled_for(base):
    assert run("-c", _MISFITS, base).splitlines() == ["bfloat16", "bfloat16 float32", "float32"]


def test_the_response_is_an_mp4_file_with_all_frames(start, base, compiled, tmp_path):
    server = start(**options(base)).ready()
    status, file, headers = server.post("/v1/videos/sync", prompt="a red bicycle", seed=7)
    assert (status, headers["Content-Type"]) == (200, "video/mp4")
    (tmp_path / "video.mp4").write_bytes(file)
    told = run("-c", _PLAYED, tmp_path / "video.mp4", tmp_path / "frames.npy")
    assert told.split() == ["h264", "16", str(WIDTH), str(HEIGHT)]
    assert np.load(tmp_path / "frames.npy").shape == (FRAMES, HEIGHT, WIDTH, 3)
    page = server.get("/metrics")[1]
    assert f'diffusion_stage_seconds_count{{stage="denoise_step"}} {STEPS:.1f}' in page
    assert 'diffusion_stage_seconds_count{stage="vae_decode"} 4.0' in page
    assert 'diffusion_stage_seconds_count{stage="video_encode"} 1.0' in page


def test_an_mp4_file_plays_what_was_encoded(tmp_path):
    file, before, after = (tmp_path / name for name in ("a.mp4", "before.npy", "after.npy"))
    run("-c", _ENCODED, file, before)
    assert run("-c", _PLAYED, file, after).split() == ["h264", "24", "96", "64"]
    shown, played = (np.load(each).astype(int) for each in (before, after))
    assert shown.shape == played.shape
    assert abs(shown - played).mean() < 3


@pytest.mark.parametrize(
    ("file", "changed", "words"),
    [
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
    ],
)
def test_a_model_or_a_size_that_needs_other_code_is_refused(base, tmp_path, file, changed, words):
    (tmp_path / "settings.json").write_text(json.dumps({"platform": "cpu", **options(tmp_path)}))
    names = ("model_index.json", "scheduler/scheduler_config.json", "transformer/config.json")
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text((base / name).read_text())
    for name in ("text_encoder", "vae"):
        (tmp_path / name).symlink_to(base / name)
    whole = {**json.loads((tmp_path / file).read_text()), **changed}
    (tmp_path / file).write_text(json.dumps(whole))
    arguments = f"'compile', '--config', '{tmp_path}/settings.json', '--chip', 'cpu'"
    code = f"import diffusion.__main__ as m; print(m.main([{arguments}, '--out', '{tmp_path}']))"
    said = run("-c", f"import sys; sys.stderr = sys.stdout; {code}").splitlines()
    assert said[-2:] == [f"error: {words}", "2"]
    assert "Traceback" not in "".join(said)


@pytest.mark.soak  # it starts a server of its own, as the other soak tests of this folder
def test_a_text_encoder_in_eight_bits_generates_nearly_the_same(start, server, base):
    given = {**options(base), "text_encoder_bits": 8, "programs_folder": ""}
    narrow = start(**given, pipeline="tests.diffusion.exact_video:load").ready()
    difference = abs(ask(narrow) - ask(server))
    assert 0 < difference.mean() < 2
