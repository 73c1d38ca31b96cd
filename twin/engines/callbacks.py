"""Runs the worker of personalized images with the receivers of callbacks on this machine.

`python -m twin.engines.callbacks ARGUMENTS...` reads the JSON file in GKE_INFERENCE_TWIN_RECEIVERS,
which maps host names to `ADDRESS:PORT`, for each lookup. Host names that it lacks do not exist.
"""

import json
import os
import runpy
import socket
import sys
from pathlib import Path
from typing import Any

_FILE = "GKE_INFERENCE_TWIN_RECEIVERS"
_find = socket.getaddrinfo


def receivers(file: Path) -> dict[str, str]:
    """Return the addresses of receivers by host name."""
    try:
        return json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        return {}


def found(host: Any, port: Any, *rest: Any, **named: Any) -> Any:
    """Return what `getaddrinfo` does, for the address of a receiver in place of its name."""
    name = host.decode() if isinstance(host, bytes) else host
    address = receivers(Path(os.environ[_FILE])).get(name)
    if address is not None:
        host, _, port = address.rpartition(":")
        port = int(port)
    elif name and not _is_here(name):
        raise socket.gaierror(socket.EAI_NONAME, f"{name}: not in {os.environ[_FILE]}")
    return _find(host, port, *rest, **named)


def _is_here(name: str) -> bool:
    return name == "localhost" or name.replace(".", "").isdigit() or ":" in name


if __name__ == "__main__":
    socket.getaddrinfo = found
    sys.argv = ["workloads.personal", *sys.argv[1:]]
    runpy.run_module("workloads.personal", run_name="__main__")
