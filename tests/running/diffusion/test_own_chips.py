"""The example of four models on four chips, with the pipeline that the twin simulates."""

import base64
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.contract.infra.test_image_models import FOUR, server_of_four
from workloads.diffusion.workers import as_json

# the short form: test_server.py does the same with a pipeline that generates texts
pytestmark = [pytest.mark.needs_tools, pytest.mark.soak]


@pytest.fixture
def server(serve):
    _, settings = server_of_four()
    given = {name: value for name, value in as_json(settings).items() if name not in _OF_THE_TEST}
    environment = {**os.environ, "GKE_INFERENCE_SIM_SPEED": "50"}
    return serve(
        python=(sys.executable, "-m", "workloads.diffusion"),  # its processes are its children
        environment=environment,
        pipeline="simulator.diffusion.simulated:load",
        **given,
    )


_OF_THE_TEST = ("host", "pipeline", "platform", "port")


def workers_of(server):
    """Return the process of each chip, by the number of the chip."""
    found = {}
    pid = server.process.pid
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        found[int(words[words.index(b"--number") + 1])] = int(child)
    return found


def test_each_model_answers_from_its_chip_and_a_killed_process_takes_one_model_with_it(server):
    chips = {name: at for at, (name,) in enumerate(server_of_four()[1].held)}
    server.ready()
    before = workers_of(server)
    assert sorted(before) == [0, 1, 2, 3]

    def image(name):
        status, body, _ = server.ask(prompt="a red bicycle", model=name, seed=7)
        assert status == 200, body
        return base64.b64decode(body["data"][0]["b64_json"])

    images = {name: image(name) for name in FOUR}
    assert len(set(images.values())) == 4
    assert {file[:4] for file in images.values()} == {b"\x89PNG"}

    os.kill(before[chips["flux-krea"]], signal.SIGKILL)
    lost = 'diffusion_model_workers{model_name="flux-krea",state="ready"}'
    server.until(lambda: server.metric(lost) == 0)
    for name in FOUR:
        if name != "flux-krea":
            assert image(name) == images[name]
    assert image("flux-krea") == images["flux-krea"]  # it waits for the new process
    after = workers_of(server)
    assert {at for at in after if after[at] != before[at]} == {chips["flux-krea"]}
