"""Stands in for an interpreter: `forks.py` runs the program, with this process's files.

Signals go to the program, whose status is that of this process. The program ends with it.
"""

import json
import os
import signal
import socket
import sys
from contextlib import suppress

FORWARDED = (signal.SIGINT, signal.SIGTERM)


def main() -> None:
    """Ask for a program and wait for its end."""
    path, *arguments = sys.argv[1:]
    with socket.socket(socket.AF_UNIX) as process:
        process.connect(path)
        asked = {
            "arguments": arguments,
            "environment": dict(os.environ),
            "folder": os.getcwd(),
        }
        socket.send_fds(process, [b" "], [0, 1, 2])
        process.sendall(json.dumps(asked).encode() + b"\n")
        with process.makefile("r") as answers:
            pid = int(answers.readline())
            for number in FORWARDED:
                signal.signal(number, lambda sent, _: os.kill(pid, sent))
            code = int(answers.readline() or -signal.SIGKILL)  # nothing: all of them were ended
    if code < 0:
        with suppress(OSError):  # of SIGKILL nothing can be set
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    main()
