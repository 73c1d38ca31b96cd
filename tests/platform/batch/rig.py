"""Batches of a platform, as tests see them: requests and processes."""

import json
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
