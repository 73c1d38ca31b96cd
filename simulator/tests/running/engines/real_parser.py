"""What the real engines say of command lines, without starting."""

import json
import subprocess
from pathlib import Path
from typing import Any

from twin.engines.real import install
from twin.engines.real.install import VLLM
from twin.toolchain.python_environments import PythonEnvironment


def ask_parser(what: str, given: str = "", environment: PythonEnvironment = VLLM) -> Any:
    """Run `twin/engines/real/read_parser.py` in the environment of a real engine."""
    script = Path(install.__file__).with_name("read_parser.py")
    answer = subprocess.run(
        [environment.python(), script, environment.word, what],
        input=given,
        capture_output=True,
        text=True,
        check=False,
        env={
            "HF_HUB_OFFLINE": "1",
            "HOME": str(environment.folder / "home"),
            # a class of models is looked into once, in a process of its own: half a minute each
            "VLLM_CACHE_ROOT": str(VLLM.folder / "cache"),
            "VLLM_LOGGING_LEVEL": "ERROR",
        },
    )
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout.splitlines()[-1])
