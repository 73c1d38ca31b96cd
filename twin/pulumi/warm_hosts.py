"""Language hosts with preloaded SDKs: forks of one process that loads them once.

Each run of the engine starts two language hosts in succession: one is asked for its version alone,
the other loads the SDKs for more than a second before the program starts. The engine attaches to
one of these hosts instead (`PULUMI_DEBUG_LANGUAGES`). The process loads while the command does
other things; of several runs, only the first waits for it.
"""

import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from twin.host.processes import ProcessError
from twin.pulumi import language_host
from twin.pulumi.speedups import speed_up_imports


class WarmHosts:
    """The process with the loaded SDKs, and its forked hosts."""

    def __init__(
        self,
        folder: Path,
        environment: Mapping[str, str],
        modules: Sequence[str] = (),
        output: int = subprocess.DEVNULL,
    ) -> None:
        """Start loading without waiting for it.

        Args:
            folder: working directory of the process, without modules, because Python searches it
                first.
            environment: environment of the process; each host has its own.
            modules: modules that programs import, to load after the SDKs.
            output: file descriptor for what programs print; what they log goes to the engine.
        """
        self._lock = threading.Lock()
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno()), *modules],
                cwd=folder,
                env=dict(environment),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                process_group=0,  # as the engine's plugins: Ctrl-C is for the command alone
            )
        self._answers = self._control.makefile("r")
        self._end = weakref.finalize(self, _stop, self._process, self._answers, self._control)

    def close(self) -> None:
        """Stop the process and every host, which the end of this program does too."""
        self._end()

    @contextmanager
    def host(self, environment: Mapping[str, str]) -> Generator[int]:
        """Yield the port of a host for one run of the engine; the host ends with the block.

        Args:
            environment: environment of the run; `PYTHONPATH` applies as at the start of an
                interpreter.

        Raises:
            twin.host.processes.ProcessError: the process ended.
        """
        answer = self._ask({"environment": dict(environment)})
        try:
            yield answer["port"]
        finally:
            self._ask({"end": answer["pid"]})

    def _ask(self, request: Mapping[str, object]) -> dict[str, int]:
        with self._lock:
            try:
                self._control.sendall(json.dumps(request).encode() + b"\n")
                answer = self._answers.readline()
            except OSError:
                answer = ""
        if not answer:
            raise ProcessError("the process that has the SDKs loaded has ended")
        return json.loads(answer)


def _stop(process: subprocess.Popen[bytes], *connections: IO[str] | socket.socket) -> None:
    process.terminate()
    process.wait()
    for each in connections:
        each.close()


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
