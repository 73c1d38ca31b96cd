"""Runs one Pulumi program in the interpreter that runs this file.

The language host starts it as a script with the interpreter of the user, which has no module of the
twin, and writes a `RunRequest` to its standard input.
"""

import ctypes
import os
import runpy
import signal
import sys
from pathlib import Path
from typing import Any

NO_SDK = 33
"""Exit code if the interpreter does not have Pulumi's SDK."""
FAILED = 32
"""Exit code if the program failed and the engine has printed why, as with Pulumi's own host."""
_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of linux/prctl.h


def main() -> int:
    """Run the program of a request; return the exit code."""
    ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)  # the engine may be killed
    content = sys.stdin.buffer.read()
    del sys.path[0]  # this file's folder
    try:
        from pulumi.automation._server import LanguageServer  # noqa: PLC0415 - it may be missing
        from pulumi.runtime.proto import language_pb2  # noqa: PLC0415 - as above
    except ModuleNotFoundError:
        return NO_SDK
    messages: Any = language_pb2
    request: Any = messages.RunRequest.FromString(content)
    entry = Path(request.info.program_directory, request.info.entry_point)
    main_file = entry if entry.suffix == ".py" else entry / "__main__.py"
    os.chdir(request.pwd or request.info.program_directory)
    sys.path.insert(0, str(main_file.parent))
    sys.argv = [str(main_file)]

    def program() -> None:
        runpy.run_path(str(main_file), run_name="__main__")

    server: Any = LanguageServer(program)
    answer = server.Run(request, None)
    return FAILED if answer.error else 0


if __name__ == "__main__":
    sys.exit(main())
