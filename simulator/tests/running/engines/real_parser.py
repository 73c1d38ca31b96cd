"""What the real vLLM says of command lines, without starting."""

import json
import subprocess
from pathlib import Path
from typing import Any

from twin.engines.real import install


def ask_parser(what: str, given: str = "") -> Any:
    """Run `twin/engines/real/read_parser.py` in the real vLLM's environment."""
    script = Path(install.__file__).with_name("read_parser.py")
    answer = subprocess.run(
        [install.python(), script, what],
        input=given,
        capture_output=True,
        text=True,
        check=True,
        env={
            "HF_HUB_OFFLINE": "1",
            "HOME": "/nonexistent",
            # a class of models is looked into once, in a process of its own: half a minute each
            "VLLM_CACHE_ROOT": str(install.environment() / "cache"),
            "VLLM_LOGGING_LEVEL": "ERROR",
        },
    )
    return json.loads(answer.stdout.splitlines()[-1])
