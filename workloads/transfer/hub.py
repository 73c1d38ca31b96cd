"""Downloads a model from the Hugging Face hub; the token never leaves this module."""

import base64
import os
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from workloads.transfer.errors import Refused, TransferError

TOKEN_VARIABLES: Final = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
_REPOSITORY: Final = re.compile(r"[A-Za-z0-9][-._A-Za-z0-9]{0,95}/[A-Za-z0-9][-._A-Za-z0-9]{0,95}")
_REVISION: Final = re.compile(r"[A-Za-z0-9][-._/A-Za-z0-9]{0,255}")
_HIDDEN: Final = "(token)"


class Token:
    """A secret that is shown only by `reveal`."""

    def __init__(self, value: str) -> None:
        """Set the token, without surrounding white space."""
        self._value = value.strip()

    def reveal(self) -> str:
        """Return the token itself, for the request that needs it."""
        return self._value

    def hide(self, text: str) -> str:
        """Return a text without the token."""
        return text.replace(self._value, _HIDDEN) if self._value else text

    def __repr__(self) -> str:
        """Return a text without the secret."""
        return _HIDDEN

    __str__ = __repr__


def check_repository(value: str, option: str = "--from-hub") -> str:
    """Return the name of a repository.

    Raises:
        Refused: It is none.
    """
    if not _REPOSITORY.fullmatch(value) or ".." in value:
        raise Refused(f"{option}: must be ORGANIZATION/MODEL, got {value!r}")
    return value


def check_revision(value: str, option: str = "--revision") -> str:
    """Return the name of a branch, a tag or a commit.

    Raises:
        Refused: It is none.
    """
    if not _REVISION.fullmatch(value) or ".." in value:
        raise Refused(f"{option}: must be a branch, a tag or a commit, got {value!r}")
    return value


def token_from_environment() -> Token | None:
    """Return the token that the environment has, or None."""
    found = next((os.environ[name] for name in TOKEN_VARIABLES if os.environ.get(name)), None)
    return None if found is None else Token(found)


def decode_token(data: str) -> Token:
    """Return the token that Secret Manager's answer has, in base64.

    Raises:
        ValueError: It is no text, or empty.
    """
    text = base64.b64decode(data, validate=True).decode().strip()
    if not text:
        raise ValueError("must hold a token, got nothing")
    return Token(text)


def download(
    repository: str,
    revision: str,
    token: Token | None,
    folder: Path | None,
    exclude: Sequence[str] = (),
    *,
    fetch: Callable[..., str] | None = None,
) -> Path:
    """Download a snapshot from the hub, and return its folder.

    Existing files are not downloaded again.

    Args:
        repository: ORGANIZATION/MODEL.
        revision: Branch, tag or commit.
        token: For models that ask for one.
        folder: Where to put it; None: the hub's cache.
        exclude: Patterns of names to leave out.
        fetch: `huggingface_hub.snapshot_download`, which is loaded when it is first needed.

    Raises:
        TransferError: The hub refuses or cannot be reached; the message never has the token.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the hub's library about its own dependencies
        function: Any = fetch or _snapshot_download()
        try:
            return Path(
                function(
                    repository,
                    revision=revision,
                    token=token.reveal() if token else False,
                    local_dir=folder,
                    ignore_patterns=list(exclude) or None,
                )
            )
        except Exception as error:  # noqa: BLE001 - it raises those of three HTTP libraries
            line = " ".join(str(error).split())[:300] or type(error).__name__
            shown = line if token is None else token.hide(line)
            # nothing of the error is passed on: its traceback and its request have the token
            raise TransferError(f"{repository} cannot be read from the hub: {shown}") from None


def _snapshot_download() -> Any:
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    import huggingface_hub  # noqa: PLC0415 - a second, and most need none

    library: Any = huggingface_hub
    return library.snapshot_download
