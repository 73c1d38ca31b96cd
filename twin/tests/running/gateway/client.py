"""A client of the gateway under test."""

import http.client
import json
from collections import Counter
from typing import Any

from twin.tests.running.gateway.cluster import BLOCK

ADDRESS, PORT = f"127.32.{BLOCK}.1", 18080
MODELS_READ = "500ms"
"""How often the pickers of the two models read metrics: they run for minutes."""
ADAPTERS = [f"llama-adapter-{n}" for n in range(100)]


def ask(
    model=None,
    path="/v1/completions",
    *,
    address=ADDRESS,
    headers=None,
    body=None,
    seconds=30.0,
    **fields,
):
    """Send one request on a connection of its own; return (status, headers, parsed body).

    Raises:
        TimeoutError: There was no answer within `seconds`, and the connection was closed.
    """
    connection = http.client.HTTPConnection(address, PORT, timeout=seconds)
    try:
        asked = json.dumps({"model": model, "prompt": "hi", **fields}) if body is None else body
        method = "POST" if model is not None or body else "GET"
        sent = {"Content-Type": "application/json", **(headers or {})}
        connection.request(method, path, asked if method == "POST" else None, sent)
        response = connection.getresponse()
        text = response.read().decode()
        parsed: Any = json.loads(text) if text.startswith("{") else text
        return response.status, dict(response.getheaders()), parsed
    finally:
        connection.close()


def spread(count, *args, **fields):
    """Return how many of some requests each endpoint (or status) answered."""
    found = Counter()
    for _ in range(count):
        status, _, body = ask(*args, **fields)
        found[body["served_by"] if status == 200 else status] += 1
    return found
