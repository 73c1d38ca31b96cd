"""The process behind `WarmHosts`: it loads the SDKs once, and forks a language host on request."""

import gc
import importlib
import json
import os
import signal
import socket
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from twin.pulumi import language_host
from twin.pulumi.speedups import speed_up_imports


def main(control: socket.socket, modules: Sequence[str]) -> None:
    """Load the SDKs and modules, then start and stop hosts, as requested in lines of JSON."""
    gc.disable()
    speed_up_imports()
    language_host.load_sdks()
    for name in modules:
        with suppress(Exception):  # the run imports it again, and the engine says why it fails
            importlib.import_module(name)
    gc.freeze()  # pages stay shared with the hosts
    with control, control.makefile("r") as requests:
        for line in requests:
            request = json.loads(line)
            if "end" in request:
                os.kill(request["end"], signal.SIGTERM)
                os.waitpid(request["end"], 0)
                answer: dict[str, int] = {}
            else:
                answer = _forked(request["environment"], control)
            try:
                control.sendall(json.dumps(answer).encode() + b"\n")
            except OSError:  # the command was killed meanwhile
                return


def _forked(environment: dict[str, str], control: socket.socket) -> dict[str, int]:
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(read)
            os.close(control.fileno())  # others have files of it, which would keep it open
            _become(environment, write)
        finally:
            os._exit(1)
    os.close(write)
    with os.fdopen(read) as answer:
        return {"pid": pid, "port": int(answer.readline())}


def _become(environment: dict[str, str], write: int) -> None:
    """Serve as the host of one run until the process or its parent ends."""
    parent = os.getppid()
    os.environ.clear()
    os.environ.update(environment)
    folders = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = [folder for folder in folders if folder]
    forget_packages(folder for folder in folders if folder)
    server, port = language_host.serve(language_host.LanguageHost(""))
    with os.fdopen(write, "w") as answer:
        print(port, file=answer)
    language_host.wait(server, parent)


def forget_packages(folders: Iterable[str]) -> None:
    """Unload the packages that folders have, so that the next import reads those of the folders.

    The process has loaded parts of `gke_inference` from its own checkout. Without this, a program
    would get every module of that package from there.
    """
    language_host.forget({path.name for folder in folders for path in Path(folder).glob("*/")})


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
