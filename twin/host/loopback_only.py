"""Runs a program that knows no bind address, and keeps its sockets to what they may do.

`python loopback_only.py [--ask=WHERE] PROGRAM ARGUMENT...` becomes the program. Where it binds a
socket to all addresses of the machine, the socket is bound to loopback instead. The kernel reports
each bind(2) to a second process (seccomp_unotify(2)), which ends with the program. This needs no
privileges, changes nothing on the machine, and works with every program, because the C library is
not involved.

With `--ask=HOST:PORT/NAMESPACE/POD`, connect(2) to an address of a pod is reported as well. The
server at `HOST:PORT` decides (`twin/cluster/services/connections.py`); what it refuses times out at
once. Without an answer, the program connects.

It needs Linux 5.9 on x86-64 or arm64, and pidfd_getfd(2), which some containers refuse. Where
something is missing, the program runs as it is, and its output says so. This file runs as a script
and imports nothing of the twin.
"""

import ctypes
import errno
import fcntl
import os
import platform
import select
import socket
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

_MACHINES: Final = {
    "aarch64": (0xC00000B7, 200, 277, 438, 203),
    "x86_64": (0xC000003E, 49, 317, 438, 42),
}
"""AUDIT_ARCH, and the numbers of bind, seccomp, pidfd_getfd and connect."""
_ASK: Final = "--ask="
_ANSWER_SECONDS: Final = 2.0
_PODS: Final = (64, 128)
"""Second number of the first address of pods, 127.64.0.0, and of the first behind them."""
_NO_NEW_PRIVILEGES: Final = 38  # PR_SET_NO_NEW_PRIVS
_SET_PTRACER: Final = 0x59616D61  # PR_SET_PTRACER of the Yama module
_SET_FILTER: Final = 1  # SECCOMP_SET_MODE_FILTER
_LISTENER: Final = 1 << 3  # SECCOMP_FILTER_FLAG_NEW_LISTENER
_WAIT_KILLABLE: Final = 1 << 5  # SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, from Linux 5.19
_ALLOW: Final = 0x7FFF0000  # SECCOMP_RET_ALLOW
_NOTIFY: Final = 0x7FC00000  # SECCOMP_RET_USER_NOTIF
_RECEIVE: Final = 0xC0502100  # SECCOMP_IOCTL_NOTIF_RECV
_SEND: Final = 0xC0182101  # SECCOMP_IOCTL_NOTIF_SEND
_GO_ON: Final = 1  # SECCOMP_USER_NOTIF_FLAG_CONTINUE
_LOAD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
_IF_EQUAL: Final = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_RETURN: Final = 0x06  # BPF_RET | BPF_K
_NUMBER_AT: Final = 0  # in seccomp_data
_ARCHITECTURE_AT: Final = 4
_INSTRUCTION: Final = struct.Struct("=HBBI")  # sock_filter
_CALL: Final = struct.Struct("=QIIiIQ6Q")  # seccomp_notif
_ANSWER: Final = struct.Struct("=QqiI")  # seccomp_notif_resp
_ALL: Final[dict[int, tuple[int, bytes]]] = {
    socket.AF_INET: (4, bytes(4)),
    socket.AF_INET6: (8, bytes(16)),
}
"""Position of the address in sockaddr_in and sockaddr_in6, and that of all addresses."""
_LONGEST: Final = 128  # sockaddr_storage
_MAPPED: Final = bytes(10) + b"\xff\xff"  # start of an IPv6 address that is one of IPv4
_dropped: set[str] = set()
_libc: Final = ctypes.CDLL(None, use_errno=True)


def command(argv: list[str], decisions: str = "", sender: str = "") -> list[str]:
    """Return the command line that runs a program with its servers on loopback.

    Args:
        argv: Command line of the program.
        decisions: `HOST:PORT` that decides about connections to pods; empty: all are made.
        sender: `NAMESPACE/POD` of the program.
    """
    asking = [f"{_ASK}{decisions}/{sender}"] if decisions else []
    return [sys.executable, "-I", "-S", __file__, *asking, *argv]


def problem() -> str:
    """Return why this machine cannot keep a program to loopback; empty if it can.

    A program that listens on all addresses is tried out.
    """
    code = "import socket; print(socket.create_server(('', 0)).getsockname()[0])"
    tried = subprocess.run(
        command([sys.executable, "-I", "-S", "-c", code]),
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.stdout.strip() == "127.0.0.1":
        return ""
    return tried.stderr.strip().rpartition("\n")[2] or "bind(2) is not reported"


def _main(argv: list[str]) -> None:
    ask = ""
    if argv[0].startswith(_ASK):
        ask, *argv = argv
    try:
        _confine(ask.removeprefix(_ASK))
    except OSError as error:
        sys.stderr.write(f"cannot keep {argv[0]} to loopback: {error}\n")
    os.execvp(argv[0], argv)  # noqa: S606 - no shell is wanted


def _confine(ask: str) -> None:
    """Have bind(2) of this process answered by a second one, and connect(2) if somebody decides.

    Args:
        ask: `HOST:PORT/NAMESPACE/POD`, or nothing.

    Raises:
        OSError: The kernel does not support it, or refuses it.
    """
    machine = platform.machine()
    if machine not in _MACHINES or not sys.platform.startswith("linux"):
        raise OSError(f"not supported on {sys.platform} on {machine}")
    architecture, bind, seccomp, _, connect = _MACHINES[machine]
    ours, theirs = socket.socketpair()
    helper = _fork_helper(ours, theirs, ask)
    theirs.close()
    _libc.prctl(_SET_PTRACER, ctypes.c_ulong(helper), 0, 0, 0)  # an error: there is no Yama
    _checked(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    code = _program(architecture, bind, connect if ask else bind)
    filters = ctypes.create_string_buffer(code, len(code))
    described = struct.pack("HxxxxxxP", len(code) // _INSTRUCTION.size, ctypes.addressof(filters))
    for flags in (_LISTENER | _WAIT_KILLABLE, _LISTENER):
        listener = _libc.syscall(seccomp, _SET_FILTER, flags, described)
        if listener >= 0:
            break
    with ours:
        socket.send_fds(ours, [b"x"], [_checked(listener)])
        os.close(listener)
        ours.recv(1)  # it is listening


def _checked(returned: int) -> int:
    if returned < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return returned


def _program(architecture: int, *reported: int) -> bytes:
    """Return the filter: two system calls are reported, everything else is allowed."""
    first, second = reported
    return b"".join(
        _INSTRUCTION.pack(*each)
        for each in (
            (_LOAD, 0, 0, _ARCHITECTURE_AT),
            (_IF_EQUAL, 0, 4, architecture),
            (_LOAD, 0, 0, _NUMBER_AT),
            (_IF_EQUAL, 1, 0, first),
            (_IF_EQUAL, 0, 1, second),
            (_RETURN, 0, 0, _NOTIFY),
            (_RETURN, 0, 0, _ALLOW),
        )
    )


def _fork_helper(ours: socket.socket, theirs: socket.socket, ask: str) -> int:
    """Start the process that answers, as no child of this one; return its process ID."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        helper = os.fork()
        if helper:
            os.write(writing, struct.pack("=i", helper))
            os._exit(0)
        os.close(reading)
        os.close(writing)
        ours.close()
        with suppress(BaseException):  # nothing of this process may go on as the program
            _help(theirs, ask)
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    (found,) = struct.unpack("=i", os.read(reading, 4))
    os.close(reading)
    return found


def _help(theirs: socket.socket, ask: str) -> None:
    """Answer until the program and its children have ended."""
    _, received, _, _ = socket.recv_fds(theirs, 1, 1)
    if not received:  # it ended, or the filter was refused
        return
    (listener,) = received
    theirs.send(b"x")
    theirs.close()
    watched = select.poll()
    watched.register(listener, select.POLLIN)
    while True:
        ((_, state),) = watched.poll()
        if not state & select.POLLIN:
            return
        with suppress(OSError):  # the program, or this call of it, has ended
            _answer(listener, ask)


def _answer(listener: int, ask: str) -> None:
    call = bytearray(_CALL.size)
    fcntl.ioctl(listener, _RECEIVE, call)
    identifier, thread, _, number, _, _, descriptor, pointer, length, *_ = _CALL.unpack(call)
    error, flags = 0, _GO_ON
    try:
        with Path(f"/proc/{thread}/mem").open("rb", buffering=0) as memory:
            memory.seek(pointer)
            address = memory.read(min(length, _LONGEST))
        if number == _MACHINES[platform.machine()][4]:
            if not _is_let_out(address, ask):
                error, flags = -errno.ETIMEDOUT, 0
        elif _is_all(address):
            error, flags = -_bind(thread, descriptor, address), 0
    except OSError as refused:  # the program's own call counts
        sys.stderr.write(f"cannot keep a socket to loopback: {refused}\n")
        sys.stderr.flush()
    fcntl.ioctl(listener, _SEND, _ANSWER.pack(identifier, 0, error, flags))


def _is_let_out(address: bytes, ask: str) -> bool:
    """Return whether a program may connect to an address; of the pods', its cluster decides."""
    (family,) = struct.unpack_from("=H", address)
    if family == socket.AF_INET:
        host = socket.inet_ntoa(address[4:8])
    elif family == socket.AF_INET6 and address[8:20] == _MAPPED:
        host = socket.inet_ntoa(address[20:24])
    else:
        return True
    first, second, *_ = map(int, host.split("."))
    if first != 127 or not _PODS[0] <= second < _PODS[1]:
        return True
    (port,) = struct.unpack_from("!H", address, 2)
    where, namespace, name = ask.split("/")
    server, _, number = where.partition(":")
    try:
        with socket.create_connection((server, int(number)), _ANSWER_SECONDS) as asked:
            asked.sendall(f"{namespace} {name} {host} {port}\n".encode())
            with asked.makefile(encoding="utf-8") as answer:
                said = answer.readline().strip()
    except OSError:  # the cluster is down
        return True
    if said in ("", "ok"):
        return True
    if said not in _dropped:  # a picker tries ten times a second
        _dropped.add(said)
        sys.stderr.write(f"connection dropped: {said}\n")
        sys.stderr.flush()
    return False


def _is_all(address: bytes) -> bool:
    """Return whether a sockaddr is that of all addresses of the machine."""
    (family,) = struct.unpack_from("=H", address)
    if family not in _ALL:
        return False
    start, unspecified = _ALL[family]
    return address[start : start + len(unspecified)] == unspecified


def _bind(thread: int, descriptor: int, address: bytes) -> int:
    """Bind the socket of another process to loopback; return the number of the error, or 0.

    Raises:
        OSError: Its socket cannot be reached.
    """
    lines = Path(f"/proc/{thread}/status").read_text().splitlines()
    process = int(next(line for line in lines if line.startswith("Tgid:")).split()[1])
    handle = os.pidfd_open(process)
    try:
        number = _MACHINES[platform.machine()][3]
        found = _checked(_libc.syscall(number, handle, descriptor, 0))
    finally:
        os.close(handle)
    (port,) = struct.unpack_from("!H", address, 2)
    with socket.socket(fileno=found) as same:
        host = "127.0.0.1"
        if same.family == socket.AF_INET6:
            is_six = same.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
            host = "::1" if is_six else "::ffff:127.0.0.1"
        try:
            same.bind((host, port))
        except OSError as error:
            # a signal makes the program repeat a call that has succeeded
            return 0 if same.getsockname()[:2] == (host, port) else error.errno or 0
    return 0


if __name__ == "__main__":
    _main(sys.argv[1:])
