import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from workloads.engine.spec import Serving, Spec
from workloads.engine.weights_manifest import (
    CURRENT_NAME,
    MANIFEST_NAME,
    Current,
    FileEntry,
    Manifest,
)

ENGINE = Path(__file__).parents[3] / "workloads" / "engine"
FAKE = Path(__file__).with_name("fake_vllm.py")
LIMIT = 30.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def serving(source: str, **fields: Any) -> Serving:
    return Serving("tpu", "m", source, 4, 1024, port=free_port(), **fields)


def manifest(version: str = "v1", **sizes: int) -> Manifest:
    """A manifest of files by name, `_` for a dot, whose checksums nobody looks at."""
    entries = [
        FileEntry(name.replace("_", "."), size, "AAAAAA==", "0" * 64)
        for name, size in sorted(sizes.items())
    ]
    return Manifest("m", version, "2026-11-22T00:00:00Z", tuple(entries))


def write_version(folder: Path, version: str | None = None, content: bytes = b"weights") -> None:
    """Write a version of one file, as a tool that pushes weights does: the manifest last."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").write_bytes(content)
    text = manifest(version or "v1", model_safetensors=len(content)).dump()
    (folder / MANIFEST_NAME).write_text(text)


def point(folder: Path, version: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CURRENT_NAME).write_text(Current(version).dump())


class Launched:
    """A launcher as a process of its own, as in an image: nothing of the repository beside it."""

    def __init__(self, folder: Path, spec: Spec, options: list[str], more: dict[str, str]) -> None:
        self.folder = folder
        self.spec = spec
        (folder / "spec.json").write_text(spec.text())
        self.log = folder / "log"
        environment = {
            "FAKE_FINISH": str(folder / "finish"),
            "GCE_METADATA_HOST": "127.0.0.1:1",
            "GKE_INFERENCE_ROOT": str(folder / "root"),
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "POD_IP": "127.0.0.1",
            "PYTHONPATH": str(folder / "image"),
            **more,
        }
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "engine", f"--spec={folder / 'spec.json'}", *options],
                cwd=folder,
                env=environment,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def until(self, what: Callable[[], Any]) -> Any:
        limit = time.monotonic() + LIMIT
        while time.monotonic() < limit:
            if found := what():
                return found
            time.sleep(0.02)
        raise AssertionError(f"nothing within {LIMIT} s: {self.log.read_text()}")

    def get(self, path: str) -> tuple[int, dict[str, Any]]:
        url = f"http://127.0.0.1:{self.spec.health_port}{path}"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)
        except OSError:
            return 0, {}

    def is_at(self, stage: str) -> bool:
        return self.get("/stage")[1].get("stage") == stage

    def stream(self) -> Any:
        port = next(iter(self.spec.serving.values())).port
        return urllib.request.urlopen(f"http://127.0.0.1:{port}/stream", timeout=LIMIT)

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(LIMIT)


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Callable[..., Launched]]:
    """Starts launchers on a node with a TPU of four chips and a model in its folder."""
    started: list[Launched] = []

    def start(
        *options: str,
        more: dict[str, str] | None = None,
        chips: int = 4,
        prepare: Callable[[Path], None] | None = None,
        **changes: Any,
    ) -> Launched:
        folder = tmp_path / str(len(started))
        for made in ("bin", "image", "root/dev/vfio"):
            (folder / made).mkdir(parents=True)
        for chip in range(chips):
            (folder / "root/dev/vfio" / str(chip)).touch()
        write_version(folder / "root/models/m")
        if prepare is not None:
            prepare(folder / "root")
        shutil.copytree(ENGINE, folder / "image" / "engine")
        program = folder / "bin" / "vllm"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FAKE}" "$@"\n')
        program.chmod(0o755)
        values: dict[str, Any] = {
            "busy_metrics": ("vllm:num_requests_running", "vllm:num_requests_waiting"),
            "health_port": free_port(),
            "model": "m",
            "serving": {"tpu": serving("/models/m")},
            **changes,
        }
        started.append(Launched(folder, Spec(**values), list(options), more or {}))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
            each.process.wait()
