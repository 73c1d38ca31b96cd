"""Container registries, through crane: digests, sizes and copies, with the user's credentials."""

import base64
import json
import os
import re
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.shared.tool_setup import ensure_tools
from twin.host.paths import TwinPaths
from twin.toolchain import ToolError, tool
from twin.world.built_images import digest_of

_HUB = "https://index.docker.io/v1/"
"""Name of Docker Hub in Docker's configuration."""
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
Token = Callable[[], str]
"""Returns a Google access token."""

_GOOGLE = re.compile(r"^([a-z0-9-]+-docker\.pkg\.dev|([a-z]+\.)?gcr\.io)$")
_TOKEN_SECONDS = 1800.0  # Google's tokens are valid for an hour, and a mirror takes longer
_TIMEOUT_SECONDS = 6 * 3600  # a mirror moves tens of GB


def _crane() -> Path:
    """Return crane; obtain it on first use."""
    try:
        return tool("crane")
    except ToolError:
        ensure_tools("images")
        return tool("crane")


class RegistryError(Exception):
    """An image is missing, or the registry denied access; one line."""


def host_of(reference: str) -> str:
    """Return the registry of a reference: its first part where that is a host, or Docker Hub."""
    first = reference.partition("/")[0]
    is_host = "/" in reference and ("." in first or ":" in first or first == "localhost")
    return first if is_host else "docker.io"


def google_token() -> str:
    """Return an access token of the application default credentials.

    Raises:
        RegistryError: There are none.
    """
    # Google's library takes a third of a second to load, and most registries do not need it.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it announces, years ahead, the Pythons it will drop
        import google.auth  # noqa: PLC0415
        import google.auth.exceptions  # noqa: PLC0415
        import google.auth.transport.requests  # noqa: PLC0415

    auth: Any = google.auth
    try:
        credentials, _ = auth.default(scopes=["https://www.googleapis.com/auth/cloud-platform"])
        credentials.refresh(google.auth.transport.requests.Request())
    except google.auth.exceptions.GoogleAuthError as error:
        raise RegistryError(f"no Google credentials: {' '.join(str(error).split())}") from None
    return str(credentials.token)


@dataclass
class Registry:
    """Client for registries: Google's with an access token, others with Docker's credentials."""

    token: Token = google_token
    hosts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Substitute servers by the name of the registry, used over HTTP."""
    _known: tuple[str, float] = ("", 0.0)
    """Google's token and the time when it was read."""

    def digest(self, reference: str) -> str:
        """Return the current digest of a tag: of the index, if there is one.

        Raises:
            RegistryError: The tag does not exist, or cannot be read.
        """
        found = self._run([reference], "digest", reference).strip()
        if not DIGEST.fullmatch(found):
            raise RegistryError(f"{reference}: the registry must return a digest, got {found!r}")
        return found

    def size_bytes(self, reference: str) -> int:
        """Return the size that an x86-64 node pulls: compressed layers and configuration.

        Raises:
            RegistryError: The image does not exist, or cannot be read.
        """
        argv = ["manifest", "--platform", "linux/amd64", reference]
        manifest = json.loads(self._run([reference], *argv))
        parts = [manifest.get("config", {}), *manifest.get("layers", [])]
        return sum(int(part.get("size", 0)) for part in parts)

    def copy(self, source: str, target: str) -> None:
        """Copy an image with all its platforms; existing layers are not sent again.

        Raises:
            RegistryError: The image cannot be read or written.
        """
        self._run([source, target], "copy", source, target)

    def push(self, layout: Path, reference: str) -> None:
        """Push the one image of an OCI layout.

        Raises:
            RegistryError: The registry refuses.
        """
        self._run([reference], "push", str(layout), reference)

    def _run(self, references: list[str], *arguments: str) -> str:
        stood_in = [self._stood_in(word) for word in arguments]
        argv = [str(_crane()), *(["--insecure"] if self.hosts else []), *stood_in]
        with self._credentials([self._stood_in(each) for each in references]) as environment:
            try:
                answer = subprocess.run(
                    argv,
                    capture_output=True,
                    text=True,
                    check=False,
                    env=environment,
                    timeout=_TIMEOUT_SECONDS,
                )
            except subprocess.TimeoutExpired:
                hours = _TIMEOUT_SECONDS // 3600
                raise RegistryError(
                    f"{references[-1]}: did not finish within {hours} hours"
                ) from None
        if answer.returncode:
            lines = answer.stderr.strip().splitlines() or ["no reason given"]
            raise RegistryError(f"{references[-1]}: {lines[-1].removeprefix('Error: ')}")
        return answer.stdout

    def _stood_in(self, word: str) -> str:
        host, slash, path = word.partition("/")
        return f"{self.hosts.get(host, host)}{slash}{path}"

    @contextmanager
    def _credentials(self, references: list[str]) -> Generator[Mapping[str, str]]:
        """Yield an environment with a token for each of Google's registries, for crane.

        The file with it is the user's alone and goes with the call.
        """
        named = {host_of(each) for each in references}
        hosts = {host for host in named if _GOOGLE.fullmatch(host)}
        if not hosts:
            yield os.environ
            return
        known, read = self._known
        if not known or time.monotonic() - read > _TOKEN_SECONDS:
            known = self.token()
            self._known = known, time.monotonic()
        secret = base64.b64encode(f"oauth2accesstoken:{known}".encode()).decode()
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "config.json"
            file.touch(mode=0o600)
            auths = {host: {"auth": secret} for host in sorted(hosts)}
            file.write_text(json.dumps(_with_own(auths, sorted(named - hosts))))
            yield {**os.environ, "DOCKER_CONFIG": folder}


def _with_own(auths: dict[str, Any], others: list[str]) -> dict[str, Any]:
    """Return a Docker configuration with some logins, and the user's logins for other registries.

    A copy to a Google registry may read from a private source. Credential helpers take precedence
    over logins in the file, so they are kept only for the other registries.
    """
    folder = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    try:
        own: dict[str, Any] = json.loads((folder / "config.json").read_text())
    except (OSError, ValueError):
        own = {}
    store, helpers = own.get("credsStore"), own.get("credHelpers", {})
    keys = [_HUB if host == "docker.io" else host for host in others]
    kept = {key: program for key in keys if (program := helpers.get(key, store))}
    return {"auths": {**own.get("auths", {}), **auths}, "credHelpers": kept}


class TwinRegistry(Registry):
    """The repositories of a twin's projects. It asks no other registry."""

    def __init__(self, paths: TwinPaths) -> None:
        """Read the images of a twin."""
        super().__init__()
        self._paths = paths

    def digest(self, reference: str) -> str:
        """Return the digest of a tag.

        Raises:
            RegistryError: The twin's Cloud Build did not push it.
        """
        found = digest_of(self._paths, reference)
        if found is None:
            raise RegistryError(f"{reference}: MANIFEST_UNKNOWN: the twin did not build it")
        return found
