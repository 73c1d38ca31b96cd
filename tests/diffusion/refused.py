"""Models and settings that `compile` refuses."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.diffusion.conftest import run

_ALWAYS = ("model_index.json", "scheduler/scheduler_config.json")
_COMPILE = """
import sys, diffusion.__main__ as program
sys.stderr = sys.stdout
for folder in sys.argv[1:]:
    settings = f"{folder}/settings.json"
    print(program.main(["compile", "--config", settings, "--chip", "cpu", "--out", folder]))
"""


def copied(
    model: Path, to: Path, files: Sequence[str], folders: Sequence[str], settings: Mapping[str, Any]
) -> None:
    """Copy the configuration of a model, link its weights, and write settings of a server."""
    for name in (*_ALWAYS, *files):
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        (to / name).write_text((model / name).read_text())
    for name in folders:
        (to / name).symlink_to(model / name)
    given = {"model": "m", "platform": "cpu", **settings}
    (to / "settings.json").write_text(json.dumps(given))


def change(file: Path, changed: Mapping[str, Any]) -> None:
    """Change values of a JSON file."""
    file.write_text(json.dumps({**json.loads(file.read_text()), **changed}))


def refusals(folders: Sequence[Path]) -> list[str]:
    """Return why `compile` refuses the settings of each folder, all in one process."""
    said = run("-c", _COMPILE, *folders).splitlines()
    assert "Traceback" not in "".join(said)
    ends = [at for at, line in enumerate(said) if line == "2"]
    assert len(ends) == len(folders), said
    return [said[at - 1].removeprefix("error: ") for at in ends]
