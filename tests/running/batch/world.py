"""Batches: a bucket, the service and workers as processes, and a model that a test tells things."""

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import openai

from tests.running.programs import PYTHON, Program, until
from tests.running.stream.world import Model
from twin.host.ports import free_port, free_ports
from twin.toolchain import tool

MODELS = {
    "llama": {
        "endpoints": ["/v1/chat/completions", "/v1/completions"],
        "objective": "llama-batch",
    },
    "embed": {"endpoints": ["/v1/embeddings"]},
}


def line(number: int, **changes: Any) -> dict[str, Any]:
    """Return one request of a batch."""
    body = {"model": "llama", "prompt": str(number)}
    request = {"custom_id": f"r{number}", "method": "POST", "url": "/v1/completions", "body": body}
    return {**request, **changes}


def jsonl(lines: list[Any]) -> bytes:
    """Return lines as a file."""
    return b"".join(
        each if isinstance(each, bytes) else json.dumps(each).encode() + b"\n" for each in lines
    )


class BatchProgram(Program):
    """The service or a worker."""

    def __init__(
        self, role: str, folder: Path, settings: dict[str, Any], environment: dict[str, str]
    ) -> None:
        self.port, metrics_port = free_ports(2)
        file = folder / f"{role}-{self.port}.json"
        own = {"address": "127.0.0.1", "port": self.port, "metrics_port": metrics_port}
        file.write_text(json.dumps({**settings, **own}))
        argv = [str(PYTHON.python()), "-m", "workloads.batch", role, str(file)]
        super().__init__(folder / f"{role}-{self.port}.log", argv, environment, metrics_port)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"


class World:
    """A bucket, and what uses it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model = Model()
        self.programs: list[BatchProgram] = []
        self.storage = f"http://127.0.0.1:{free_port()}"
        root = folder / "gcs"
        with (folder / "gcs.log").open("wb") as log:
            self._storage = subprocess.Popen(
                [
                    tool("fake-gcs-server"),
                    f"--address={self.storage.removeprefix('http://')}",
                    f"--folder={root}",
                ],
                stdout=log,
                stderr=log,
            )
        until(self._has_bucket)
        self.environment = {"STORAGE_EMULATOR_HOST": self.storage, "NO_PROXY": "127.0.0.1"}
        self.settings: dict[str, Any] = {
            "bucket": "batches",
            "endpoint": self.model.url,
            "models": MODELS,
            "first_wait_seconds": 0.05,
            "longest_wait_seconds": 0.3,
            "keep_seconds": 0.05,
            "lease_seconds": 2.0,
            "poll_seconds": 0.2,
            "shard_lines": 10,
        }

    def _has_bucket(self) -> bool:
        body = json.dumps({"name": "batches"}).encode()
        asked = urllib.request.Request(f"{self.storage}/storage/v1/b?project=acme", body)  # noqa: S310
        try:
            with urllib.request.urlopen(asked, timeout=5) as answer:  # noqa: S310
                return answer.status == 200
        except OSError:
            return False

    def run(self, role: str, **changes: Any) -> BatchProgram:
        made = BatchProgram(role, self.folder, {**self.settings, **changes}, self.environment)
        self.programs.append(made)
        made.wait()
        return made

    def serve(self, **changes: Any) -> BatchProgram:
        return self.run("serve", **changes)

    def work(self, **changes: Any) -> BatchProgram:
        return self.run("work", **changes)

    def objects(self, prefix: str = "") -> list[str]:
        url = f"{self.storage}/storage/v1/b/batches/o?prefix={prefix}"
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - of this machine
            return [each["name"] for each in json.loads(answer.read()).get("items", [])]

    def delete(self, name: str) -> None:
        """Delete an object behind the back of the service."""
        path = urllib.parse.quote(name, safe="")
        url = f"{self.storage}/storage/v1/b/batches/o/{path}"
        asked = urllib.request.Request(url, method="DELETE")  # noqa: S310 - of this machine
        with urllib.request.urlopen(asked, timeout=5):  # noqa: S310 - of this machine
            return

    def stop(self) -> None:
        for program in self.programs:
            if program.process.poll() is None:
                program.kill()
        self._storage.kill()
        self._storage.wait(10)
        self.model.stop()


def client(program: BatchProgram, team: str | None = None) -> openai.OpenAI:
    """Return OpenAI's client of a service; the team is what the gate would write."""
    headers = {} if team is None else {"x-gki-team": team}
    return openai.OpenAI(
        base_url=program.url, api_key="none", default_headers=headers, max_retries=0
    )


def submit(api: openai.OpenAI, content: bytes, endpoint: Any = "/v1/completions") -> Any:
    """Return a new batch of a file."""
    file = api.files.create(file=("in.jsonl", content), purpose="batch")
    return api.batches.create(
        input_file_id=file.id, endpoint=endpoint, completion_window="24h", metadata={"n": "1"}
    )


def over(api: openai.OpenAI, batch: Any, seconds: float = 40) -> Any:
    """Return a batch once it is over."""
    found: list[Any] = []

    def ended() -> bool:
        found[:] = [api.batches.retrieve(batch.id)]
        return found[0].status in ("cancelled", "completed", "expired", "failed")

    until(ended, seconds)
    return found[0]


def read(api: openai.OpenAI, file: str | None) -> list[Any]:
    """Return the lines of a file; none if there is no file."""
    if file is None:
        return []
    return [json.loads(each) for each in api.files.content(file).read().splitlines()]
