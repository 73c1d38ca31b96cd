"""Batches on the whole platform: OpenAI's client, the real gateway, and people beside them."""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from tests.platform import example_checkout
from tests.running.batch.world import jsonl, over, read, submit
from tests.running.stream.world import until
from twin import daemon
from twin.host import processes
from twin.host.paths import TwinPaths

pytestmark = pytest.mark.needs_tools

STACK = ("--stack", "batch")
MODEL = "llama-3.1-8b"
LINES = 600
"""More than one worker's share, so that there are two."""


@pytest.fixture
def paths(tmp_path: Path) -> Iterator[TwinPaths]:
    paths = TwinPaths(tmp_path / "twin")
    yield paths
    daemon.shut_down(paths)
    assert processes.running(paths) == {}


def pids(paths: TwinPaths, deployment: str, container: str) -> list[int]:
    """Return the processes of the containers of a Deployment's pods."""
    found = (paths.root / "clusters").glob(f"*/pods/*/{deployment}-*/{container}.process.json")
    return [
        pid
        for file in found
        if Path(f"/proc/{(pid := json.loads(file.read_text())['pid'])}").exists()
    ]


def chat(number: int) -> dict[str, object]:
    body = {"model": MODEL, "messages": [{"role": "user", "content": f"Sum up {number}"}]}
    return {
        "custom_id": f"r{number}",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {**body, "max_tokens": 16},
    }


class People:
    """Somebody who asks again and again, beside the batch."""

    def __init__(self, api: openai.OpenAI) -> None:
        self.answered = 0
        self.failed: list[str] = []
        self._over = threading.Event()
        self._api = api
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()

    def _ask(self) -> None:
        while not self._over.wait(0.2):
            try:
                self._api.chat.completions.create(
                    model=MODEL, messages=[{"role": "user", "content": "hi"}], max_tokens=8
                )
            except openai.APIError as error:
                self.failed.append(str(error))
            else:
                self.answered += 1

    def stop(self) -> None:
        self._over.set()
        self._thread.join()


def test_a_batch_is_answered_once_each_beside_people_while_service_and_workers_die(
    tmp_path: Path, paths: TwinPaths
) -> None:
    folder = example_checkout.checkout(tmp_path / "checkout", "batch")
    up = example_checkout.run(folder, paths, "up", *STACK, stderr=subprocess.PIPE)
    assert up.returncode == 0, f"{up.stdout[-3000:]}{up.stderr[-2000:]}"
    status = example_checkout.run(
        folder, paths, "status", *STACK, "--json", stderr=subprocess.PIPE
    )
    (endpoint,) = (region["endpoint"] for region in json.loads(status.stdout)["regions"].values())
    api = openai.OpenAI(base_url=f"{endpoint}/v1", api_key="none", max_retries=3)
    until(lambda: pids(paths, "batch-worker", "batch"), 60)

    # what is not of batches stays where it was
    assert MODEL in [model.id for model in api.models.list()]
    with pytest.raises(openai.NotFoundError):
        api.files.retrieve("file-none")
    with pytest.raises(openai.BadRequestError, match="no model of this platform answers"):
        submit(api, jsonl([chat(0)]), "/v1/responses")

    lines = [chat(number) for number in range(LINES)]
    lines[7] = {**chat(7), "body": {**chat(7)["body"], "max_tokens": -1}}  # type: ignore[dict-item]
    people = People(api)
    try:
        batch = submit(api, jsonl(lines), "/v1/chat/completions")
        for deployment in ("batch-worker", "batch", "batch-worker"):
            seen = api.batches.retrieve(batch.id).request_counts.completed
            until(
                lambda seen=seen: api.batches.retrieve(batch.id).request_counts.completed > seen, 90
            )
            name = pids(paths, deployment, "batch")[0]
            os.kill(name, signal.SIGKILL)
            time.sleep(1)
        done = over(api, batch, 240)
    finally:
        people.stop()
    assert done.status == "completed"
    counts = {"total": LINES, "completed": LINES - 1, "failed": 1}
    assert done.request_counts.to_dict() == counts
    output = read(api, done.output_file_id)
    assert [each["custom_id"] for each in output] == [f"r{n}" for n in range(LINES) if n != 7]
    assert all(each["response"]["body"]["choices"] for each in output)
    (failure,) = read(api, done.error_file_id)
    assert (failure["custom_id"], failure["response"]["status_code"]) == ("r7", 400)
    assert people.failed == []
    assert people.answered >= 10
