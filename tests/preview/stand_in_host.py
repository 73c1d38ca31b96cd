"""A language host as the engine starts one, as particular about interpreters as the official one.

It runs a plugin without `virtualenv` with the first Python on PATH, not with the project's.
"""

import shutil
import sys
from typing import Any

from twin.pulumi import language_host


def interpreter(info: Any, *, is_plugin: bool = False, own: Any = language_host.interpreter) -> str:
    """Return the Python that runs a plugin."""
    if dict(info.options).get("virtualenv"):
        return own(info, is_plugin=is_plugin)
    return shutil.which("python3") or sys.executable


if __name__ == "__main__":
    language_host.interpreter = interpreter
    language_host.main(sys.argv[1:])
