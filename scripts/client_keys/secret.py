"""The secret with the document of keys; each change adds a version."""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from scripts.client_keys.documents import (
    Key,
    KeyDocument,
    KeyProblem,
    document,
    new_salt_key,
    parse,
)
from scripts.shared.google_cloud import Cloud, CloudError, NotFound, last

GOOGLE: Final = "secretmanager.googleapis.com"
_TRIES: Final = 5


@dataclass(frozen=True)
class KeySecret:
    """The keys of one stack, in Secret Manager."""

    cloud: Cloud
    secret_id: str
    host: str = GOOGLE
    """Host of the API, with its port if it is not Google's."""

    @property
    def name(self) -> str:
        """Return `projects/P/secrets/S`."""
        return f"projects/{self.cloud.project}/secrets/{self.secret_id}"

    def read(self) -> tuple[int, list[Key]]:
        """Return the number of the newest version, 0 if there is none, and its keys.

        Raises:
            CloudError: Google refuses.
            KeyProblem: It is no document of keys.
        """
        number, found = self._read()
        return number, found.keys

    def _read(self) -> tuple[int, KeyDocument]:
        try:
            found = self.cloud.get(f"{self.host}/v1/{self.name}/versions/latest:access")
        except NotFound:
            self._check_there()
            return 0, KeyDocument([])
        text = base64.b64decode(found["payload"]["data"]).decode()
        return int(last(found["name"])), parse(text)

    def change(self, change: Callable[[list[Key]], list[Key]]) -> None:
        """Change the keys; merge with concurrent changes.

        Secret Manager does not support conditional writes. The number of the new version shows
        whether another version was added after the one that was read.

        Raises:
            CloudError: Google refuses, or concurrent changes keep interfering.
            KeyProblem: The change is refused; nothing was written.
        """
        number, found = self._read()
        for _ in range(_TRIES):
            text = document(change(found.keys), found.salt_key or new_salt_key())
            payload = base64.b64encode(text.encode()).decode()
            url = f"{self.host}/v1/{self.name}:addVersion"
            made = self.cloud.post(url, {"payload": {"data": payload}})
            now = int(last(made["name"]))
            if now == number + 1:
                return
            try:
                between = self.cloud.get(f"{self.host}/v1/{self.name}/versions/{now - 1}:access")
            except NotFound:  # the number is of an earlier secret with this name
                return
            number, found = now, parse(base64.b64decode(between["payload"]["data"]).decode())
        raise CloudError(f"{self.name}: concurrent changes kept interfering; run the command again")

    def _check_there(self) -> None:
        try:
            self.cloud.get(f"{self.host}/v1/{self.name}/versions", pageSize="1")
        except NotFound:
            rule = "is made with the stack, where 'clients' has teams"
            raise KeyProblem(f"{self.name} does not exist: it {rule}") from None
