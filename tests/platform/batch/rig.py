"""Batches of a platform, as tests see them: requests, processes, and people who ask beside them."""

import json
import threading
from pathlib import Path
from typing import Any

import openai

from twin.host.paths import REPOSITORY, TwinPaths

EXAMPLE = REPOSITORY / "docs" / "examples" / "batch" / "Pulumi.batch.yaml"
MODEL = "llama-3.1-8b"
CHAT = "/v1/chat/completions"


def client(url: str) -> openai.OpenAI:
    """Return OpenAI's client of a gateway without teams."""
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=3)


def pids(paths: TwinPaths, role: str) -> list[int]:
    """Return the processes of the service (`serve`) or the workers (`work`)."""
    files = (paths.root / "clusters").glob("*/pods/*/*/batch.process.json")
    found = [int(json.loads(file.read_text())["pid"]) for file in files]
    return [pid for pid in found if role in _words_of(pid)]


def _words_of(pid: int) -> list[str]:
    """Return the command line of a process; nothing if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []


def chat(number: int, **body: Any) -> dict[str, Any]:
    """Return one request of a batch."""
    messages = [{"role": "user", "content": f"Sum up {number}"}]
    asked = {"model": MODEL, "messages": messages, "max_tokens": 16, **body}
    return {"custom_id": f"r{number}", "method": "POST", "url": CHAT, "body": asked}


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
