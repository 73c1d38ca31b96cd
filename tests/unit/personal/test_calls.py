"""What the worker sends: to receivers and the gateway, and to the cluster."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from workloads.personal.callback import ID
from workloads.personal.jobs import SetJobs
from workloads.personal.main import poster
from workloads.personal.worker import Retry

GROUPS = {"configmaps": "/api/v1", "jobs": "/apis/batch/v1"}


def sent(
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]], headers: dict[str, str]
) -> tuple[int, bytes]:
    """Return what the worker gets for one request."""

    async def run() -> tuple[int, bytes]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handler)
        async with TestServer(app) as server, aiohttp.ClientSession() as session:
            return await poster(session)(str(server.make_url("/done")), b"{}", headers)

    return asyncio.run(run())


def test_a_redirect_of_a_receiver_is_not_followed() -> None:
    paths: list[str] = []

    async def redirect(request: web.Request) -> web.Response:
        paths.append(request.path)
        return web.Response(status=307, headers={"location": "/computeMetadata/v1"})

    assert sent(redirect, {ID: "x"}) == (307, b"")
    assert paths == ["/done"]


def test_the_body_of_a_receivers_answer_is_not_read() -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=b"x" * 10_000_000)

    assert sent(answer, {ID: "x"}) == (200, b"")


def test_an_answer_of_the_gateway_has_a_limit() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(body=bytes(32 * 2**20 + int(request.headers["more"])))

    assert len(sent(answer, {"more": "0"})[1]) == 32 * 2**20
    with pytest.raises(Retry, match="an answer that is too large"):
        sent(answer, {"more": "1"})


class Api:
    """The session of a cluster, which records what it is asked."""

    def __init__(self, answer: str) -> None:
        self.status, self.answer = 200, answer
        self.asked: list[tuple[str, str, Any]] = []

    def request(self, method: str, url: str, *, json: Any, **_: Any) -> "Api":
        self.asked.append((method, url, json))
        return self

    async def __aenter__(self) -> "Api":
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def text(self) -> str:
        return self.answer


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.1.0.1")
    monkeypatch.setattr("ssl.create_default_context", lambda **_: None)
    (tmp_path / "token").write_text("token\n")
    return str(tmp_path)


def test_the_objects_of_a_user_are_found_by_their_label(account: str) -> None:
    api: Any = Api('{"items": [{"metadata": {"name": "train-alice-one"}}]}')
    cluster = SetJobs(api, "jobs-images", GROUPS, account)
    assert asyncio.run(cluster.names("jobs", "alice")) == ["train-alice-one"]
    assert asyncio.run(cluster.names("configmaps", "alice")) == ["train-alice-one"]
    label = "?labelSelector=personal-images/user%3Dalice"
    assert [url for _, url, _ in api.asked] == [
        f"https://10.1.0.1:443/apis/batch/v1/namespaces/jobs-images/jobs{label}",
        f"https://10.1.0.1:443/api/v1/namespaces/jobs-images/configmaps{label}",
    ]


def test_a_job_is_deleted_after_its_pods(account: str) -> None:
    api: Any = Api("{}")
    asyncio.run(SetJobs(api, "jobs-images", GROUPS, account).delete("jobs", "train-alice-one"))
    ((method, _, body),) = api.asked
    assert (method, body) == ("DELETE", {"propagationPolicy": "Foreground"})
