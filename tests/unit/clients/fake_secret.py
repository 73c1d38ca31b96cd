"""The secret of a stack's keys, as Secret Manager has it."""

import base64
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scripts.client_keys.secret import KeySecret
from scripts.shared.google_cloud import Cloud

SECRET = "projects/acme/secrets/client-keys"


@dataclass
class Answer:
    status_code: int
    body: Any

    @property
    def text(self) -> str:
        return json.dumps(self.body)

    def json(self) -> Any:
        return self.body


@dataclass
class SecretManager:
    """Versions of one secret, as Secret Manager answers for them."""

    exists: bool = True
    versions: list[str] = field(default_factory=list[str])
    earlier: int = 0
    """Versions of a secret with the same name that was deleted."""
    before_adding: Callable[["SecretManager"], None] = lambda _: None

    def request(
        self,
        method: str,
        url: str,
        *,
        json: Any,
        params: Mapping[str, str] | None,
        headers: Mapping[str, str],
        timeout: float,
    ) -> Answer:
        path = url.partition("/v1/")[2]
        if not self.exists:
            return Answer(404, {"error": {"message": "not found"}})
        if method == "GET" and path == f"{SECRET}/versions":
            return Answer(200, {"totalSize": len(self.versions)})
        if method == "POST" and path == f"{SECRET}:addVersion":
            self.before_adding(self)
            return self._add(base64.b64decode(json["payload"]["data"]).decode())
        asked = re.fullmatch(rf"{SECRET}/versions/(latest|\d+):access", path)
        assert asked, url
        newest = self.earlier + len(self.versions)
        number = newest if asked[1] == "latest" else int(asked[1])
        if not self.earlier < number <= newest:
            return Answer(404, {"error": {"message": "not found"}})
        data = base64.b64encode(self.versions[number - self.earlier - 1].encode()).decode()
        return Answer(200, {"name": f"{SECRET}/versions/{number}", "payload": {"data": data}})

    def _add(self, text: str) -> Answer:
        self.versions.append(text)
        return Answer(200, {"name": f"{SECRET}/versions/{self.earlier + len(self.versions)}"})


def kept(manager: SecretManager) -> KeySecret:
    return KeySecret(Cloud("acme", manager, "http://127.0.0.1/", lambda _: None), "client-keys")
