"""Programs that listen on all addresses, run with their servers on loopback."""

import os
import signal
import socketserver
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from twin.host import loopback_only
from twin.host.listening import Listener, listeners
from twin.host.ports import free_port


@pytest.fixture(autouse=True, scope="module")
def _possible():
    if problem := loopback_only.problem():
        pytest.skip(f"this machine cannot: {problem}")


_SOCKETS = """
import socket, sys
six = socket.socket(socket.AF_INET6)
six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(sys.argv[1]))
six.bind(("::", 0))
six.listen()
print(six.getsockname()[0])
"""


def _run(code, *arguments, argv=()):
    return subprocess.run(
        [*argv, *loopback_only.command([sys.executable, "-I", "-c", code, *arguments])],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def _printed(code, *arguments):
    answer = _run(code, *arguments)
    assert (answer.returncode, answer.stderr) == (0, "")
    return answer.stdout.split()


def test_a_server_on_all_addresses_is_on_loopback_and_can_be_reached_there():
    code = """
import socket
server = socket.create_server(("", 0))
print(server.getsockname()[0])
socket.create_connection(("127.0.0.1", server.getsockname()[1])).sendall(b"asked")
print(server.accept()[0].recv(5).decode())
"""
    assert _printed(code) == ["127.0.0.1", "asked"]


@pytest.mark.parametrize(("only", "address"), [("0", "::ffff:127.0.0.1"), ("1", "::1")])
def test_a_server_of_ipv6_is_on_loopback(only, address):
    assert _printed(_SOCKETS, only) == [address]


def test_an_address_that_the_program_chose_stays():
    code = "import socket; print(socket.create_server(('127.0.0.7', 0)).getsockname()[0])"
    assert _printed(code) == ["127.0.0.7"]


def test_sockets_without_an_address_of_the_machine_are_left_alone():
    code = """
import socket
local = socket.socket(socket.AF_UNIX)
local.bind("\\0test-loopback-only")
print(local.getsockname().decode().strip("\\0"))
"""
    assert _printed(code) == ["test-loopback-only"]


def test_a_port_in_use_is_the_programs_own_error():
    code = """
import socket
first = socket.create_server(("", 0))
try:
    socket.create_server(("", first.getsockname()[1]))
except OSError as error:
    print(error.errno)
"""
    assert _printed(code) == ["98"]


def test_threads_and_children_of_the_program_are_kept_too():
    code = """
import socket, subprocess, sys, threading
own = "import socket; print(socket.create_server(('', 0)).getsockname()[0], flush=True)"
thread = threading.Thread(target=exec, args=(own, {}))
thread.start()
thread.join()
subprocess.run([sys.executable, "-c", own], check=True)
"""
    assert _printed(code) == ["127.0.0.1", "127.0.0.1"]


def test_the_program_keeps_its_arguments_environment_and_exit_code(monkeypatch):
    monkeypatch.setenv("MARKER", "kept")
    answer = _run("import os, sys; print(os.environ['MARKER'], *sys.argv[1:]); sys.exit(7)", "-a b")
    assert (answer.returncode, answer.stdout, answer.stderr) == (7, "kept -a b\n", "")


def _helpers(mark):
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


class _Decider(socketserver.ThreadingTCPServer):
    """Answers as a cluster does, and keeps the questions."""

    def __init__(self, answer):
        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                asked.append(self.rfile.readline().decode().strip())
                self.wfile.write(f"{answer}\n".encode())

        self.asked = asked = []
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()


_CONNECTS = """
import errno, socket, sys
address = ("127.127.250.9", int(sys.argv[1]))
with socket.create_server(address), socket.socket() as client:
    client.settimeout(float(sys.argv[2]) or None)
    print(errno.errorcode.get(client.connect_ex(address), "connected"))
"""


@pytest.mark.parametrize("seconds", ["0", "5"])  # a socket with a timeout does not block
@pytest.mark.parametrize(
    ("answer", "outcome", "said"),
    [
        ("ok", "connected", ""),
        (
            "models/a to port 1: closed",
            "ETIMEDOUT",
            "connection dropped: models/a to port 1: closed\n",
        ),
    ],
)
def test_a_connection_to_a_pod_is_made_if_its_cluster_lets_it_through(
    answer, outcome, said, seconds
):
    port = free_port()
    with _Decider(answer) as cluster:
        where = f"127.0.0.1:{cluster.server_address[1]}"
        argv = loopback_only.command(
            [sys.executable, "-I", "-c", _CONNECTS, str(port), seconds], where, "models/a-0"
        )
        found = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
        cluster.shutdown()
    assert (found.stdout, found.stderr) == (f"{outcome}\n", said)
    assert cluster.asked == [f"models a-0 127.127.250.9 {port}"]


def test_a_program_connects_while_its_cluster_is_down_and_to_what_is_no_pod():
    port = str(free_port())
    nobody = f"127.0.0.1:{free_port()}"
    for code in (_CONNECTS, _CONNECTS.replace("127.127.250.9", "127.0.0.1")):
        argv = loopback_only.command([sys.executable, "-I", "-c", code, port, "0"], nobody, "m/a")
        found = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
        assert (found.stdout, found.stderr) == ("connected\n", "")


def _listening(pid):
    end = time.monotonic() + 30
    while not (found := [each for each in listeners() if each.pid == pid]):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


def test_the_process_is_the_programs_own_and_a_signal_ends_all_of_it(tmp_path):
    mark = f"mark-{os.getpid()}-{tmp_path.name}"
    code = "import socket, time; s = socket.create_server(('', 0)); time.sleep(60)"
    argv = loopback_only.command([sys.executable, "-I", "-c", code, mark])
    with subprocess.Popen(argv) as program:
        [found] = _listening(program.pid)
        assert found == Listener("127.0.0.1", found.port, program.pid, found.program)
        assert len(_helpers(mark)) == 2
        program.send_signal(signal.SIGKILL)
    end = time.monotonic() + 30
    while _helpers(mark):
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_it_needs_no_privileges(tmp_path):
    python = "/usr/bin/python3"
    if not Path(python).exists():
        pytest.skip("no Python that every user can run")
    file = Path("/tmp") / f"loopback_only-{os.getpid()}.py"
    code = "import os, socket; print(os.getuid(), socket.create_server(('', 0)).getsockname()[0])"
    try:
        file.write_text(Path(loopback_only.__file__).read_text())
        file.chmod(0o644)
        answer = subprocess.run(
            [python, "-I", "-S", str(file), python, "-I", "-c", code],
            capture_output=True,
            text=True,
            check=False,
            user=65_534,
            group=65_534,
            extra_groups=[],
            cwd="/",
        )
    finally:
        file.unlink()
    assert (answer.stdout, answer.stderr) == ("65534 127.0.0.1\n", "")


def test_a_machine_that_cannot_runs_the_program_as_it_is_and_says_so():
    script = f"""
import platform, runpy, sys
platform.machine = lambda: "mips"
sys.argv[:] = ["x", {sys.executable!r}, "-I", "-c", "print('ran')"]
runpy.run_path({loopback_only.__file__!r}, run_name="__main__")
"""
    answer = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, check=False
    )
    assert answer.stdout == "ran\n"
    assert (
        answer.stderr
        == f"cannot keep {sys.executable} to loopback: not supported on linux on mips\n"
    )
