"""The pages of docs/tutorial, run from their own text in a checkout and on a twin of its own."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.platform.example_checkout import bare_checkout
from tests.platform.tutorial.console import blocks, commands, numbered, run, unlike
from twin import daemon
from twin.host import processes
from twin.host.paths import REPOSITORY, TwinPaths

PAGES = REPOSITORY / "docs" / "tutorial"
MISTAKES = (("context: 8192", "contxt: 8192"), ("count: 1", "count: 3"))
"""Words of the added capacity and model, and the mistakes that page 5 makes of them."""


@pytest.fixture
def folder(tmp_path):
    """Give a checkout whose twin is in its own `build`; nothing of it runs after the test."""
    made = bare_checkout(tmp_path / "checkout")
    shutil.copytree(REPOSITORY / "stacks", made / "stacks")
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy2(REPOSITORY / name, made)
    for file in (made / "requirements.lock", *made.rglob("pyproject.toml")):
        os.utime(file, (0, 0))  # older than `.venv`: the packages are those of the tests
    yield made
    paths = TwinPaths(made / "build" / "twin")
    daemon.shut_down(paths)
    assert processes.running(paths) == {}


# whole/test_bring_up.py compares pages 1 and 3 on the platform of that folder
@pytest.mark.needs_tools
@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_the_tutorial_prints_what_its_page_shows(folder):
    environment = {
        **os.environ,
        "GKE_INFERENCE_TWIN_DIR": str(folder / "build" / "twin"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{folder}{os.pathsep}{folder / 'components'}",
    }
    stack = folder / "stacks" / "Pulumi.local.yaml"
    found = numbered(PAGES)
    assert list(found) == [1, 2, 3, 4, 5, 6, 7]
    for number, text in found.items():
        if number == 2:
            (program,) = blocks(text, "python")
            (folder / "build" / "ask.py").write_text(program)
        if number == 4:
            capacity, model = blocks(text, "yaml")
            written = stack.read_text().replace("    capacity:\n", f"    capacity:\n{capacity}", 1)
            stack.write_text(written.replace("    models:\n", f"    models:\n{model}", 1))
        right = stack.read_text()
        for at, command in enumerate(commands(text)):
            if number == 5:
                good, bad = MISTAKES[at]
                assert f"`{bad}` instead of `{good}`" in text
                start = right.index("qwen3-embedding" if at == 0 else "small:")
                stack.write_text(right[:start] + right[start:].replace(good, bad, 1))
            printed = run(command, folder, environment)
            assert unlike(command.shown, printed) == "", f"{command.line}\n{printed}"
        stack.write_text(right)
    assert not (folder / "build" / "twin").exists()  # its last command leaves nothing
