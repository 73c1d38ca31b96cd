"""Sources of a RepoSync's objects: a branch of a repository, or an OCI artifact."""

import base64
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_SECONDS: Final = 30.0
_LOCAL: Final = ("127.", "localhost")
_ACCEPTED: Final = (
    "application/vnd.oci.image.manifest.v1+json, "
    "application/vnd.docker.distribution.manifest.v2+json"
)
_TAG: Final = "org.opencontainers.image.ref.name"
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
Secret = Callable[[str], Mapping[str, str] | None]
"""Returns the decoded values of a Secret of the namespace; None if it does not exist."""


class SourceError(Exception):
    """The source cannot be read; the message is one line in Config Sync's format."""

    def __init__(self, code: str, message: str, *, stalls: bool = False) -> None:
        super().__init__(f"KNV{code}: {' '.join(message.split())}")
        self.code = code
        self.stalls = stalls
        """Whether a retry cannot help because the RepoSync itself is wrong."""


@dataclass(frozen=True)
class Source:
    """The source of a RepoSync."""

    spec: Mapping[str, Any]
    cache: Path
    """Folder of this RepoSync, kept between reads."""
    secret: Secret

    @property
    def kind(self) -> str:
        """`git` or `oci`."""
        return str(self.spec.get("sourceType") or "git")

    @property
    def part(self) -> Mapping[str, Any]:
        """The part of the `spec` for this kind of source.

        Raises:
            SourceError: The part is missing, or the twin does not support the kind.
        """
        if self.kind not in ("git", "oci"):
            raise SourceError("1061", f"the twin reads git and oci, not {self.kind}", stalls=True)
        found = self.spec.get(self.kind)
        if not found:
            message = f"spec.{self.kind} must be set when spec.sourceType is {self.kind}"
            raise SourceError("1061", message, stalls=True)
        return found

    def revision(self) -> str:
        """Return the current revision: a commit, or the digest of an artifact.

        Raises:
            SourceError: It cannot be read.
        """
        return self._commit() if self.kind == "git" else _manifest(str(self.part["image"]))[0]

    def fetch(self, revision: str, folder: Path) -> Path:
        """Write the tree of a revision to a folder, and return where its objects are.

        Raises:
            SourceError: The source cannot be read, or the folder does not exist.
        """
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        content = self._archive(revision) if self.kind == "git" else self._layer()
        try:
            with tarfile.open(fileobj=io.BytesIO(content)) as archive:
                archive.extractall(folder, filter="data")
        except (tarfile.TarError, OSError) as error:
            raise SourceError("2004", f"{revision} cannot be unpacked: {error}") from None
        place = folder / str(self.part.get("dir") or "").strip("/")
        if not place.is_dir():
            raise SourceError("2004", f"{revision} has no folder {self.part.get('dir')!r}")
        return place

    def _commit(self) -> str:
        branch = str(self.part.get("revision") or self.part.get("branch") or "master")
        repository = self.cache / "repository"
        if not (repository / "HEAD").exists():
            repository.mkdir(parents=True, exist_ok=True)
            self._git("init", "--bare", "--quiet", str(repository))
        repo = str(self.part["repo"])
        self._git("-C", str(repository), "fetch", "--quiet", "--depth=1", repo, branch)
        return self._git("-C", str(repository), "rev-parse", "FETCH_HEAD").decode().strip()

    def _archive(self, revision: str) -> bytes:
        return self._git("-C", str(self.cache / "repository"), "archive", revision)

    def _git(self, *arguments: str) -> bytes:
        """Run git like git-sync: with the credentials of the Secret and without prompts."""
        environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", **self._login()}
        try:
            ran = subprocess.run(
                ["git", *arguments],
                capture_output=True,
                check=False,
                env=environment,
                timeout=_SECONDS,
            )
        except FileNotFoundError:
            raise SourceError("2004", "git is not on PATH") from None
        except subprocess.TimeoutExpired:
            message = f"git did not answer within {_SECONDS:.0f} s"
            raise SourceError("2004", message) from None
        if ran.returncode:
            said = ran.stderr.decode(errors="replace").strip() or "no reason given"
            raise SourceError("2004", f"error in the git-sync container: {said}")
        return ran.stdout

    def _login(self) -> dict[str, str]:
        """Return the environment variables for git's credentials."""
        auth = str(self.part.get("auth") or "none")
        if auth == "none":
            return {}
        if auth != "token":
            message = f"the twin signs in to git with none or token, not {auth}"
            raise SourceError("1061", message, stalls=True)
        secret: Mapping[str, Any] = self.part.get("secretRef") or {}
        name = str(secret.get("name") or "")
        values = self.secret(name) if name else None
        if values is None or not {"username", "token"} <= values.keys():
            message = f"the Secret {name!r} must have the keys username and token"
            raise SourceError("1061", message, stalls=True)
        login = base64.b64encode(f"{values['username']}:{values['token']}".encode()).decode()
        return {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "http.extraHeader",
            "GIT_CONFIG_VALUE_0": f"Authorization: Basic {login}",
        }

    def _layer(self) -> bytes:
        image = str(self.part["image"])
        _, manifest = _manifest(image)
        layers: list[dict[str, Any]] = manifest.get("layers") or []
        if len(layers) != 1:
            raise SourceError("2004", f"{image} must have one layer, got {len(layers)}")
        return _blob(image, str(layers[0]["digest"]))


def _manifest(image: str) -> tuple[str, dict[str, Any]]:
    """Return the digest of an artifact, and its manifest.

    Raises:
        SourceError: The artifact does not exist.
    """
    if image.startswith("file://"):
        folder, _, tag = image.removeprefix("file://").rpartition(":")
        try:
            entries = json.loads((Path(folder) / "index.json").read_text())["manifests"]
        except (OSError, ValueError, KeyError) as error:
            raise SourceError("2004", f"{folder} is no OCI layout: {error}") from None
        found = [each for each in entries if each.get("annotations", {}).get(_TAG) == tag]
        if not found:
            raise SourceError("2004", f"{folder} has no tag {tag!r}")
        digest = str(found[0]["digest"])
        return digest, json.loads(_blob(image, digest))
    host, _, rest = image.partition("/")
    path, _, tag = rest.rpartition(":")
    content = _get(f"{_scheme(host)}://{host}/v2/{path}/manifests/{tag}")
    return f"sha256:{hashlib.sha256(content).hexdigest()}", json.loads(content)


def _blob(image: str, digest: str) -> bytes:
    """Return the content of a digest, after verifying it."""
    if image.startswith("file://"):
        folder = image.removeprefix("file://").rpartition(":")[0]
        try:
            content = (Path(folder) / "blobs" / digest.replace(":", "/")).read_bytes()
        except OSError as error:
            problem = f"{digest} is missing from {folder}: {error.strerror}"
            raise SourceError("2004", problem) from None
    else:
        host, _, rest = image.partition("/")
        path = rest.rpartition(":")[0]
        content = _get(f"{_scheme(host)}://{host}/v2/{path}/blobs/{digest}")
    if f"sha256:{hashlib.sha256(content).hexdigest()}" != digest:
        raise SourceError("2004", f"{image}: the content of {digest} has another digest")
    return content


def _scheme(host: str) -> str:
    return "http" if host.startswith(_LOCAL) else "https"


def _get(url: str) -> bytes:
    request = urllib.request.Request(url, headers={"Accept": _ACCEPTED})  # noqa: S310 - http and https alone
    try:
        with _OPENER.open(request, timeout=_SECONDS) as answer:
            return answer.read()
    except (urllib.error.URLError, OSError) as error:
        raise SourceError("2004", f"{url}: {error}") from None
