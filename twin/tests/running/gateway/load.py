"""Clients that keep asking while the cluster changes, and what became of each request."""

import http.client
import json
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from twin.tests.running.gateway.client import ADDRESS, PORT


@dataclass
class Load:
    """Requests until it is stopped; every second client streams."""

    bodies: list[dict[str, Any]]
    """What each client asks for, over and over."""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    statuses: Counter[int] = field(default_factory=Counter[int])
    served_by: Counter[str] = field(default_factory=Counter[str])
    """Whole answers by the engine that gave them."""
    lost: list[str] = field(default_factory=list[str])
    """Requests that ended without an answer, or with half of one."""
    sent: int = 0

    def __enter__(self) -> "Load":
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._client, args=(b,)) for b in self.bodies]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=60)

    def _client(self, body: dict[str, Any]) -> None:
        connection = http.client.HTTPConnection(ADDRESS, PORT, timeout=30)
        while not self._stop.is_set():
            try:
                problem, status, engine = self._ask(connection, body)
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                problem, status, engine = repr(error), 0, ""
            with self._lock:
                self.sent += 1
                self.statuses[status] += 1
                if problem:
                    self.lost.append(problem)
                elif engine:
                    self.served_by[engine] += 1
            time.sleep(0.005)
        connection.close()

    def _ask(self, connection: http.client.HTTPConnection, body: dict[str, Any]) -> Any:
        connection.request("POST", "/v1/completions", json.dumps(body), self.headers)
        response = connection.getresponse()
        text = response.read().decode()
        if response.status != 200:
            return f"{response.status} {text[:200]}", response.status, ""
        if not body.get("stream"):
            return "", 200, json.loads(text)["served_by"]
        lines = [line for line in text.splitlines() if line.startswith("data: ")]
        if lines[-1:] != ["data: [DONE]"] or len(lines) != body["max_tokens"] + 1:
            return f"half a stream: {lines[-1:]}", 200, ""
        return "", 200, json.loads(lines[0][6:])["served_by"]
