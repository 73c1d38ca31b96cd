"""Secrets of Secret Manager that an engine gets as variables, read when it starts.

Only the engine's process has the values: no Kubernetes object and no log contains them. Requests
have the token of the pod's service account; with `SECRET_MANAGER_ENDPOINT`, another server answers
and they have none. Reference: cloud.google.com/secret-manager/docs/reference/rest, versions.access.
"""

import base64
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Mapping

from .bucket import BucketError, token

_ENDPOINT = "https://secretmanager.googleapis.com"
_SECONDS = 10.0
_TRIES = 5
_PAUSE_SECONDS = 2.0


class SecretError(OSError):
    """A secret cannot be read; the message has its name and the reason, never its value."""


def read(secrets: "Mapping[str, str]") -> "dict[str, str]":
    """Return the values of secrets by variable.

    Args:
        secrets: `projects/P/secrets/S` by variable; the latest version is read.

    Raises:
        SecretError: A secret cannot be read, after some tries.
    """
    return {name: _value(name, secret) for name, secret in sorted(secrets.items())}


def _value(name: str, secret: str) -> str:
    why = ""
    for left in reversed(range(_TRIES)):
        try:
            return _accessed(secret)
        except urllib.error.HTTPError as error:
            why = f"status {error.code}"
            is_final = error.code < 500
        except (BucketError, OSError) as error:
            why, is_final = str(error), False
        except (LookupError, ValueError):
            why, is_final = "the answer is no text", True
        if is_final or not left:
            break
        time.sleep(_PAUSE_SECONDS)
    raise SecretError(f"{name}: {secret} cannot be read: {why}")


def _accessed(secret: str) -> str:
    other = os.environ.get("SECRET_MANAGER_ENDPOINT")
    signed = {} if other else {"Authorization": f"Bearer {token()}"}
    request = urllib.request.Request(  # noqa: S310 - one of two hosts
        f"{other or _ENDPOINT}/v1/{secret}/versions/latest:access", headers=signed
    )
    with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310
        found = json.load(answer)
    return base64.b64decode(found["payload"]["data"]).decode()
