"""Batches of a platform, as tests see them: requests and processes."""

import json
from pathlib import Path
from typing import Any

import openai
import yaml

from tests.platform.faults.rig import together
from twin.host.paths import REPOSITORY, TwinPaths

_EXAMPLES = REPOSITORY / "docs" / "examples"
_BATCH = _EXAMPLES / "batch" / "Pulumi.batch.yaml"
_RAY = _EXAMPLES / "ray" / "Pulumi.ray.yaml"
MODEL, RAY_MODEL = "llama-3.1-8b", "llama-3.1-405b"
CHAT = "/v1/chat/completions"


def stack(folder: Path) -> Path:
    """Write the example of batches with the model of the one with Ray, and replicas of both."""
    file = together(folder, _BATCH, _RAY, "capacity", "images", "models")
    whole = yaml.safe_load(file.read_text())
    models = whole["config"]["gke-inference:platform"]["models"]
    models[MODEL]["replicas"] = {"min": 3, "max": 3, "standby": 0}
    scaling = {"scale_in_delay_seconds": 5, "scale_in_every_seconds": 5}
    models[RAY_MODEL]["replicas"] = {"min": 2, "max": 3, **scaling}
    models[RAY_MODEL]["autoscaling"] = {"running_requests": 8}
    digests = whole["config"]["gke-inference:platform"]["images"]["digests"]
    digests["batch"] = digests["body-router"]
    file.write_text(yaml.safe_dump(whole, sort_keys=False))
    return file


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
