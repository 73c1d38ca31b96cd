"""Calls to the cluster: a refusal has the API server's reason, on one line."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest

from workloads.common.cluster import Cluster, ClusterError


class _Answer:
    def __init__(self, status: int, body: str) -> None:
        self.status = status
        self._body = body

    async def text(self) -> str:
        return self._body


class _Session:
    """Gives the same answer to each call."""

    def __init__(self, status: int, body: str) -> None:
        self._answer = _Answer(status, body)

    @contextlib.asynccontextmanager
    async def request(self, *_: Any, **__: Any) -> AsyncGenerator[_Answer]:
        yield self._answer


REFUSAL = {"kind": "Status", "message": 'jobs "x" is forbidden:\n  exceeded quota'}


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (403, json.dumps(REFUSAL), 'HTTP 403, jobs "x" is forbidden: exceeded quota'),
        (502, "<html>" + "x" * 900, f"HTTP 502, <html>{'x' * 294}"),
        (500, "[]", r"HTTP 500, []"),
        (200, "<html>", "HTTP 200, no JSON"),
    ],
)
def test_a_call_that_fails_has_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, status: int, body: str, why: str
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setattr(ssl, "create_default_context", lambda cafile: None)
    (tmp_path / "token").write_text("t")
    session = cast("aiohttp.ClientSession", _Session(status, body))
    cluster = Cluster(session, "n", {"jobs": "/apis/batch/v1"}, str(tmp_path))
    with pytest.raises(ClusterError) as failed:
        asyncio.run(cluster.create("jobs", {}))
    assert str(failed.value) == f"POST jobs: {why}"
