"""A server with the real pipeline, and a tiny model."""

import json
import subprocess

import pytest

from tests.diffusion.warm import WARM, environment
from tests.running.diffusion.conftest import Server
from twin.engines.image_pipeline import DIFFUSION
from twin.host.paths import REPOSITORY

SIZE = 32


@pytest.fixture(scope="package", autouse=True)
def warm():
    """The process with the packages ends after the last test."""
    yield
    WARM.stop()


def pytest_collection_modifyitems(items):
    """Skip what needs the real pipeline where it is not installed."""
    if DIFFUSION.is_installed:
        return
    for item in items:
        if "needs_diffusion" in item.keywords:
            item.add_marker(pytest.mark.skip(reason=DIFFUSION.hint))


def run(*arguments):
    """Run a program where the pipeline's packages are."""
    answer = subprocess.run(
        [WARM.python(), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
        env=environment(),
    )
    assert answer.returncode == 0, answer.stdout[-3000:] + answer.stderr[-3000:]
    return answer.stdout


@pytest.fixture(scope="package")
def tiny(tmp_path_factory):
    """A folder with a tiny pipeline and two adapters of it."""
    folder = tmp_path_factory.mktemp("tiny")
    run("-m", "diffusion", "tiny", folder, "--adapter", "comic", "--adapter", "noir")
    return folder


@pytest.fixture(scope="package")
def settings(tiny):
    return {
        "adapters": {"comic": str(tiny / "adapters" / "comic")},
        "folder": str(tiny),
        "max_batch": 2,
        "pipeline": "",
        "programs_folder": str(tiny / "programs"),
        "sizes": [f"{SIZE}x{SIZE}"],
        "steps": 2,
        "text_tokens": 16,
    }


@pytest.fixture(scope="package")
def compiled(tiny, settings):
    """What `compile` says; the programs are in the settings' folder."""
    file = tiny / "compile.json"
    file.write_text(json.dumps({"model": "flux", "platform": "cpu", **settings}))
    arguments = ("--config", file, "--chip", "cpu", "--out", tiny / "programs", "--rank", 4)
    return run("-m", "diffusion", "compile", *arguments)


@pytest.fixture(scope="module")
def start(tmp_path_factory, settings):
    """Start servers that end with the module."""
    started = []

    def begin(**changed):
        started.append(
            Server(
                tmp_path_factory.mktemp("server"),
                python=[WARM.python(), "-m", "diffusion"],
                environment=environment(),
                **{**settings, **changed},
            )
        )
        return started[-1]

    yield begin
    for server in started:
        server.stop()


@pytest.fixture(scope="module")
def server(start, compiled):
    return start().ready()
