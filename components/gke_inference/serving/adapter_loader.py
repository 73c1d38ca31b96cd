"""Synchronizes the LoRA adapters of one engine with a bucket folder, and informs the picker.

It needs only the standard library. It runs next to each engine, in the engine's own image, as
`python3 -c` with this file's text, and is configured by environment variables:

- ADAPTERS_FOLDER: where the bucket's folder is mounted; each folder in it is an adapter, by name.
  Empty: no adapter comes later.
- ENGINE_URL: the engine of this pod.
- ADAPTERS_PORT and POD_IP: where it answers `/ready` and `/adapters`.
- BASE_NAMES: JSON list of names that no adapter may take.
- GIVEN_ADAPTERS: JSON list of adapters that the engine loads by itself.
- POLL_SECONDS: how often it looks.

An adapter is complete once its configuration and weights exist. Files uploaded under the name of a
loaded adapter are not loaded again, because the engine's prefix cache would mix both.
"""

import json
import os
import re
import sys
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CONFIG = "adapter_config.json"
WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
NAME = re.compile(r"[a-z0-9]([-._a-z0-9]*[a-z0-9])?")
LONGEST_NAME = 40
RETRY_SECONDS = 60.0


def signature(folder: str) -> "tuple[tuple[str, int, float], ...]":
    """Return names, sizes and times of an adapter's files. A change triggers another attempt."""
    found: list[tuple[str, int, float]] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file():
                state = entry.stat()
                found.append((entry.name, state.st_size, state.st_mtime))
    return tuple(sorted(found))


def problem_of(name: str, base_names: "list[str]") -> str:
    """Return why a folder cannot be an adapter, or an empty string if it can."""
    if name in base_names:
        return "must not have the name of a model or of another adapter"
    if len(name) > LONGEST_NAME or not NAME.fullmatch(name):
        return (
            f"must have a name of at most {LONGEST_NAME} lowercase letters, digits, dots, hyphens "
            "and underscores"
        )
    return ""


class Engine:
    """The engine's API for adapters."""

    def __init__(self, url: str) -> None:
        self._url = url

    def loaded(self) -> "set[str]":
        """Return the names that it serves.

        Raises:
            OSError: it does not answer.
        """
        with urllib.request.urlopen(self._url + "/v1/models", timeout=10) as answer:  # noqa: S310
            return {entry["id"] for entry in json.load(answer)["data"]}

    def warm(self, name: str) -> None:
        """Send a one-token request to an adapter, and ignore the answer.

        The picker (v1.5.0) treats a replica that has never used an adapter as having no room for
        one, because the engine's metric lists none. It would never receive adapter requests.
        """
        body = json.dumps({"model": name, "prompt": "x", "max_tokens": 1}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._url + "/v1/completions", body, headers)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
                answer.read()
        except OSError as error:
            say("WARNING", f"adapter {name} did not answer: {error}", adapter=name)

    def post(self, action: str, **fields: str) -> str:
        """Load or unload an adapter. Return why that failed, or an empty string.

        Raises:
            OSError: it does not answer.
        """
        request = urllib.request.Request(  # noqa: S310 - the engine of this pod
            f"{self._url}/v1/{action}_lora_adapter",
            json.dumps(fields).encode(),
            {"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=300):  # noqa: S310
                return ""
        except urllib.error.HTTPError as error:
            return message_of(error.read())


def message_of(body: bytes) -> str:
    """Return the message in an engine's error response."""
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace")[:300]


class Loader:
    """State of adapters: loaded, waiting and failed."""

    def __init__(
        self, folder: str, engine: Engine, base_names: "list[str]", given: "tuple[str, ...]" = ()
    ) -> None:
        self._folder = folder
        self._engine = engine
        self._base_names = base_names
        self._given = given
        self.loaded: set[str] = set()
        """Adapters from the folder that the engine serves."""
        self.failed: dict[str, str] = {}
        """Adapters that cannot be served, with the reason."""
        self.is_settled = False
        """Whether all adapters that existed at the start have been tried."""
        self._tried: dict[str, tuple[object, float]] = {}
        self._is_warm = False

    def sync(self) -> None:
        """Load new adapters and unload removed ones. Retry while the engine is not up."""
        try:
            served = self._engine.loaded()
            self.loaded &= served
            self._warm_up([name for name in self._given if name in served])
            wanted = self._wanted()
            for name in sorted(self.loaded - set(wanted)):
                self._unload(name)
            for name, files in sorted(wanted.items()):
                if name not in self.loaded:
                    self._load(name, files)
            for name in set(self.failed) - set(wanted):
                del self.failed[name]
                self._tried.pop(name, None)
            self.is_settled = True
        except OSError as error:
            self._is_warm = False  # a restarted engine has computed nothing
            if self.is_settled:
                say("WARNING", f"the engine does not answer: {error}")

    def _warm_up(self, given: "list[str]") -> None:
        """Send a request to the first initial adapter, once per start of the engine."""
        self._is_warm = self._is_warm and bool(self.loaded or given)
        if given and not self._is_warm:
            self._engine.warm(given[0])
            self._is_warm = True

    def _wanted(self) -> "dict[str, tuple[tuple[str, int, float], ...]]":
        """Return the complete adapters in the folder with their files."""
        if not self._folder:
            return {}
        try:
            names = sorted(os.listdir(self._folder))
        except FileNotFoundError:  # nothing has been uploaded yet
            return {}
        found: dict[str, tuple[tuple[str, int, float], ...]] = {}
        for name in names:
            folder = os.path.join(self._folder, name)
            try:
                files = signature(folder) if os.path.isdir(folder) else ()
            except FileNotFoundError:  # removed in the meantime
                continue
            have = {file[0] for file in files}
            if CONFIG in have and have & set(WEIGHTS):
                found[name] = files
        return found

    def _load(self, name: str, files: object) -> None:
        before, at = self._tried.get(name, (None, 0.0))
        if before == files and time.monotonic() - at < RETRY_SECONDS:
            return
        self._tried[name] = (files, time.monotonic())
        problem = problem_of(name, self._base_names)
        if not problem:
            path = os.path.join(self._folder, name)
            problem = self._engine.post("load", lora_name=name, lora_path=path)
        if problem:
            self.failed[name] = problem
            say("ERROR", f"adapter {name}: {problem}", adapter=name)
            return
        self.failed.pop(name, None)
        self.loaded.add(name)
        if not self._is_warm:
            self._engine.warm(name)
            self._is_warm = True
        say("INFO", f"adapter {name} is served", adapter=name)

    def _unload(self, name: str) -> None:
        problem = self._engine.post("unload", lora_name=name)
        self.loaded.discard(name)
        self._tried.pop(name, None)
        say("INFO", f"adapter {name} is gone{': ' + problem if problem else ''}", adapter=name)


def say(severity: str, message: str, **fields: str) -> None:
    """Write a log line in Cloud Logging's format."""
    line = {"severity": severity, "message": message, **fields}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def serve(loader: Loader, address: str, port: int) -> ThreadingHTTPServer:
    """Answer `/ready` and `/adapters` in a separate thread."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = {"loaded": sorted(loader.loaded), "failed": dict(loader.failed)}
            known = self.path in ("/ready", "/adapters")
            ok = self.path == "/adapters" or loader.is_settled
            self.send_response(404 if not known else 200 if ok else 503)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its own name
            """Do not log probes."""

    server = ThreadingHTTPServer((address, port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def main() -> None:
    """Run until the pod ends."""
    engine = Engine(os.environ["ENGINE_URL"])
    names = json.loads(os.environ["BASE_NAMES"])
    given = tuple(json.loads(os.environ.get("GIVEN_ADAPTERS", "[]")))
    loader = Loader(os.environ["ADAPTERS_FOLDER"], engine, names, given)
    serve(loader, os.environ["POD_IP"], int(os.environ["ADAPTERS_PORT"]))
    while True:
        loader.sync()
        time.sleep(float(os.environ["POLL_SECONDS"]))


if __name__ == "__main__":
    main()
