"""Google's REST APIs, answered by a twin."""

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import requests

from scripts.shared.google_cloud import Cloud, Json, Response
from twin.host.paths import TwinPaths
from twin.providers.gcp import cloud_build, rest
from twin.providers.gcp.effects import gcs, secret_manager
from twin.providers.gcp.server import world_of

_STORAGE: Final = "storage.googleapis.com"


def twin_cloud(project: str, number: int, paths: TwinPaths) -> Cloud:
    """Return the REST APIs of a project on a twin, which must run only for bucket contents.

    Args:
        project: Identifier of the project.
        number: Its number.
        paths: The twin.
    """
    return Cloud(project, TwinSession(paths, number))


@dataclass(frozen=True)
class TwinSession:
    """Answers requests to Google's APIs from a twin: resources and bucket contents."""

    paths: TwinPaths
    project_number: int

    def request(
        self,
        method: str,
        url: str,
        *,
        json: Json | None,
        params: Mapping[str, str] | None,
        headers: Mapping[str, str],
        timeout: float,
    ) -> Response:
        """Answer one request."""
        parts = urlsplit(url)
        path = parts.path.lstrip("/")
        if parts.netloc == cloud_build.HOST and cloud_build.is_of_builds(method, parts.path):
            return _answer(*cloud_build.answer(self.paths, method, parts.path, json))
        if parts.netloc == secret_manager.HOST and secret_manager.is_of_versions(parts.path):
            store = world_of(self.paths).store
            return _answer(*secret_manager.answer(store, method, parts.path, _content(json)))
        status, body = rest.answer(self.paths, self.project_number, parts.netloc, path)
        if status == rest.ELSEWHERE:
            address = f"{gcs.url(self.paths)}{parts.path}"
            return requests.request(method, address, json=json, params=params, timeout=timeout)
        return _answer(status, body)


def _content(body: Json | None) -> bytes:
    return b"" if body is None else json.dumps(body).encode()


def _answer(status: int, body: Json) -> requests.Response:
    answer = requests.Response()
    answer.status_code = status
    answer.raw = io.BytesIO(json.dumps(body).encode())
    return answer
