"""Downloads over HTTP: through an optional mirror, resumable, with short timeouts.

A host that does not answer is tried only once per run, so that not every tool waits for it.
"""

import functools
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from twin.toolchain.cache import check_cache
from twin.toolchain.registry import ToolError

if TYPE_CHECKING:
    import httpx2

MIRROR_VARIABLE = "GKE_INFERENCE_TOOLS_MIRROR"
FROM_VARIABLE = "GKE_INFERENCE_TOOLS_FROM"
_CONNECT_SECONDS = 3.0
_READ_SECONDS = 30.0
_PROBE_SECONDS = 5.0
"""Time limit for the first response of an origin, including name resolution."""
_TRIES = 4
_PAUSE_SECONDS = 0.5
_probes: dict[str, str] = {}
_probe_lock = threading.Lock()
_cancelled = threading.Event()


class NetworkError(Exception):
    """A file cannot be downloaded; the message names the file and the reason."""


def mirror() -> str:
    """Return the address of the mirror without a trailing slash; empty if none is set.

    Raises:
        ToolError: the variable is not an HTTP address.
    """
    configured = os.environ.get(MIRROR_VARIABLE, "")
    if not configured:
        return ""
    try:
        parts = urlsplit(configured)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
        is_address = is_address and not (parts.query or parts.fragment) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise ToolError(
            f"{MIRROR_VARIABLE}: must be an address such as https://mirror.example/tools, "
            f"got '{configured}'"
        )
    return configured.rstrip("/")


def check_settings() -> None:
    """Reject invalid values of the environment variables for tools.

    Raises:
        ToolError: a value is not valid; the message names variable, rule and value.
    """
    check_cache()
    mirror()
    source = os.environ.get(FROM_VARIABLE, "")
    if source not in ("", "source"):
        raise ToolError(f"{FROM_VARIABLE}: must be 'source' or unset, got '{source}'")


def is_source_only() -> bool:
    """Return whether only Go modules may be downloaded."""
    return os.environ.get(FROM_VARIABLE, "") == "source"


def through_mirror(address: str) -> str:
    """Return the URL for an address; the mirror has a folder per host."""
    base = mirror()
    return f"{base}/{address.split('://', 1)[1]}" if base else address


def image_through_mirror(reference: str) -> str:
    """Return the image reference to request; the mirror's registry has a folder per host."""
    base = mirror()
    return f"{base.split('://', 1)[1]}/{reference}" if base else reference


def registry_of(reference: str) -> str:
    """Return the origin of the registry for an image."""
    base = mirror()
    if base:
        parts = urlsplit(base)
        return f"{parts.scheme}://{parts.netloc}"
    return f"https://{reference.split('/', 1)[0]}"


@functools.cache
def _client() -> "httpx2.Client":
    """Return the shared client; loading the system's certificate authorities takes a moment."""
    import httpx2  # noqa: PLC0415 - a fifth of a second, and only downloads need it

    timeout = httpx2.Timeout(_READ_SECONDS, connect=_CONNECT_SECONDS)
    return httpx2.Client(follow_redirects=True, timeout=timeout)


def check_reachable(url: str) -> None:
    """Reject an origin that does not answer; each is tried once per run.

    Raises:
        NetworkError: the origin does not answer; the message names the host.
    """
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc}"
    with _probe_lock:
        if origin not in _probes:
            _probes[origin] = _probe(origin)
    if _probes[origin]:
        raise NetworkError(f"{parts.netloc} is not reachable ({_probes[origin]})")


def forget_probes() -> None:
    """Forget unreachable hosts, for tests with several networks in one run."""
    _probes.clear()
    _cancelled.clear()


def cancel() -> None:
    """Stop the downloads of this run, whose threads outlive an interruption of the program."""
    _cancelled.set()


def _probe(origin: str) -> str:
    """Return why an origin does not answer; empty if it does.

    It runs in its own thread, because name resolution has no timeout.
    """
    import httpx2  # noqa: PLC0415 - as above

    client = _client()
    answer = [f"no answer in {_PROBE_SECONDS:g} s"]

    def ask() -> None:
        try:
            client.head(origin + "/", follow_redirects=False)
        except httpx2.HTTPError as error:
            answer[0] = str(error) or type(error).__name__
        else:
            answer[0] = ""

    thread = threading.Thread(target=ask, daemon=True, name="probe")
    thread.start()
    thread.join(_PROBE_SECONDS)
    return answer[0]


def read_text(address: str) -> str:
    """Return a small text file, such as a list of checksums.

    Raises:
        NetworkError: the file cannot be read.
    """
    import httpx2  # noqa: PLC0415 - as above

    url = through_mirror(address)
    check_reachable(url)
    try:
        answer = _client().get(url)
        answer.raise_for_status()
    except httpx2.HTTPStatusError as error:
        raise NetworkError(f"{url} answered {error.response.status_code}") from None
    except httpx2.HTTPError as error:
        raise NetworkError(f"{url}: {error or type(error).__name__}") from None
    return answer.text


def fetch(address: str, file: Path) -> None:
    """Download an address to a file, and resume an interrupted download.

    Raises:
        NetworkError: the file cannot be downloaded.
    """
    import httpx2  # noqa: PLC0415 - as above

    url = through_mirror(address)
    check_reachable(url)
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f"{file.name}.partial")
    reason = ""
    for attempt in range(_TRIES):
        time.sleep(_PAUSE_SECONDS * attempt)
        try:
            _fetch_rest(url, partial)
        except httpx2.HTTPStatusError as error:
            status = error.response.status_code
            reason = f"{url} answered {status}"
            partial.unlink(missing_ok=True)  # also one that is longer than the file
            if status < 500 and status not in (408, 416, 429):
                break
        except httpx2.HTTPError as error:
            reason = f"{url}: {error or type(error).__name__}"
        else:
            partial.replace(file)
            return
    raise NetworkError(reason)


def _fetch_rest(url: str, partial: Path) -> None:
    there = partial.stat().st_size if partial.exists() else 0
    # no compression, because a partial compressed transfer cannot be resumed
    headers = {"Accept-Encoding": "identity"}
    if there:
        headers["Range"] = f"bytes={there}-"
    with _client().stream("GET", url, headers=headers) as answer:
        answer.raise_for_status()
        continues = there > 0 and answer.status_code == 206
        with partial.open("ab" if continues else "wb") as stream:
            for chunk in answer.iter_raw():
                if _cancelled.is_set():
                    raise NetworkError(f"{url}: interrupted")
                stream.write(chunk)
