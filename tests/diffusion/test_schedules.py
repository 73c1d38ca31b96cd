"""First-block caching and distilled schedules, against diffusers' own pipeline; a tiny model."""

import numpy as np
import pytest
from PIL import Image

from tests.diffusion.conftest import SIZE, run
from tests.diffusion.test_real_pipeline import LAST_BIT, ask
from twin.host.paths import REPOSITORY

pytestmark = [pytest.mark.needs_tools, pytest.mark.needs_diffusion, pytest.mark.timeout(1800)]
STEPS = 12
REUSED = 'diffusion_stage_seconds_count{stage="reused_step"}'
COMPUTED = 'diffusion_stage_seconds_count{stage="denoise_step"}'


def reference(tiny, out, *options):
    """Return the image of diffusers' own pipeline, and what it printed."""
    printed = run(REPOSITORY / "tests/diffusion/reference.py", tiny, out, 7, SIZE, *options)
    return np.asarray(Image.open(out)).astype(int), printed


@pytest.fixture(scope="module")
def caching(start, compiled):
    """A server that caches; it reads encoders and decoders, and compiles its steps."""
    return start(adapters={}, step_cache=0.3, steps=STEPS).ready()


def test_steps_reuse_blocks_where_diffusers_own_cache_does(caching, tiny, tmp_path):
    options = ("--steps", STEPS, "--cache", 0.3)
    expected, reused = reference(tiny, tmp_path / "reference.png", *options)
    generated = ask(caching)[0]
    assert 0 < int(reused) < STEPS
    assert (caching.metric(REUSED), caching.metric(COMPUTED)) == (int(reused), STEPS - int(reused))
    assert abs(generated - expected).max() <= LAST_BIT


@pytest.mark.soak  # the test above compares these steps with those of diffusers
def test_an_image_with_cached_steps_is_close_to_the_one_without(caching, tiny, tmp_path):
    exact, _ = reference(tiny, tmp_path / "exact.png", "--steps", STEPS)
    difference = abs(ask(caching)[0] - exact)
    assert 0 < difference.mean() < 10


def test_a_batch_reuses_a_step_only_where_every_image_may(caching):
    counts = []
    for body in ({"seed": 7}, {"seed": 8}, {"seed": 7, "n": 2}):
        before = caching.metric(REUSED)
        ask(caching, **body)
        counts.append(caching.metric(REUSED) - before)
    assert counts[2] <= min(counts[:2])


@pytest.mark.soak  # it starts another server
def test_a_distilled_schedule_gives_the_image_of_diffusers_with_these_sigmas(start, tiny, tmp_path):
    sigmas = [1.0, 0.65, 0.3]
    server = start(sigmas=sigmas, steps=0, adapters={}, max_batch=1).ready()
    options = [word for sigma in sigmas for word in ("--sigma", sigma)]
    expected, _ = reference(tiny, tmp_path / "reference.png", "--steps", 3, *options)
    assert abs(ask(server)[0] - expected).max() <= LAST_BIT
    status, body, _ = server.ask(prompt="x", num_inference_steps=4)
    assert (status, body["error"]["message"]) == (
        400,
        "num_inference_steps: must be 3, as the model was distilled to, got 4",
    )
