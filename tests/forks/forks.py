"""A process that has modules loaded, and forks programs.

It runs where the modules are, not always where the tests are. Those of the image pipeline take 10 s
of processor time to load, which each program would need. `interpreter.py` asks for a program in the
place of an interpreter.
"""

import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import sys
from contextlib import suppress
from functools import partial


class Forks:
    """The programs that run, each with the connection to the process that waits for it."""

    def __init__(self, path):
        """Listen for requests."""
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(path)
        self._listening.listen()
        self._running = {}  # by the descriptor of the process
        self._ready = selectors.DefaultSelector()
        self._ready.register(sys.stdin, selectors.EVENT_READ, self._end)
        self._ready.register(self._listening, selectors.EVENT_READ, self._begin)

    def wait(self):
        """Fork programs until this process has to end; in each fork, return its arguments."""
        while True:
            for key, _ in self._ready.select():
                arguments = key.data()
                if arguments is not None:
                    return arguments

    def _begin(self):
        client, _ = self._listening.accept()
        _, files, _, _ = socket.recv_fds(client, 1, 3)
        with client.makefile("r") as lines:
            asked = json.loads(lines.readline())
        pid = os.fork()
        if pid == 0:
            self._forget(client)
            become(files, asked)
            return asked["arguments"]
        for file in files:
            os.close(file)
        process = os.pidfd_open(pid)
        self._running[process] = client, pid
        self._ready.register(process, selectors.EVENT_READ, partial(self._finish, process))
        self._ready.register(client, selectors.EVENT_READ, partial(self._kill, process))
        client.sendall(f"{pid}\n".encode())
        return None

    def _forget(self, client):
        self._ready.close()
        for each in (client, self._listening, *(one for one, _ in self._running.values())):
            each.close()
        for process in self._running:
            os.close(process)

    def _finish(self, process):
        client, pid = self._running.pop(process)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with suppress(OSError):  # the client has ended first
            client.sendall(f"{code}\n".encode())
        for each in (process, client):
            with suppress(KeyError):
                self._ready.unregister(each)
        os.close(process)
        client.close()

    def _kill(self, process):
        """End a program whose client has ended; a client sends nothing but its request."""
        if process in self._running:
            client, pid = self._running[process]
            self._ready.unregister(client)
            os.kill(pid, signal.SIGKILL)

    def _end(self):
        for _, pid in self._running.values():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        sys.exit()


def become(files, asked):
    """Take over the files, the folder and the environment of a program."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])


def main():
    """Load the packages; then be one program after another, each in a fork."""
    path, sys.executable, *modules = sys.argv[1:]  # of the programs that a program starts
    for name in modules:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # pages stay shared with the forks
    first, *others = Forks(path).wait()
    if first == "-m":
        sys.argv, sys.path[0] = others, os.getcwd()
        runpy.run_module(others[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.argv, sys.path[0] = ["-c", *others[1:]], ""
        exec(others[0], {"__name__": "__main__"})  # noqa: S102 - what `python -c` does
    else:
        sys.argv, sys.path[0] = [first, *others], os.path.dirname(first)
        runpy.run_path(first, run_name="__main__")


if __name__ == "__main__":
    main()
