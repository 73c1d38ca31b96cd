"""A relay with providers, Secret Manager, and an API server of a few pods and one count."""

import base64
import http.server
import json
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import requests

from twin.host.ports import free_port, free_ports
from twin.model_providers.dialects import Grants
from twin.model_providers.server import Providers, serve
from twin.toolchain import tool

KEYS = {
    "openai": "sk-of-the-platform-openai",
    "anthropic": "sk-ant-of-the-platform-1",
    "gemini": "AIza-of-the-platform-gemini",
}
ACCOUNT = "relay@acme.iam.gserviceaccount.com"
RUN = "gemma-1.us-central1.run.app"
VERTEX = "us-central1-aiplatform.googleapis.com"
HOSTS = (
    "api.openai.com",
    "api.anthropic.com",
    "generativelanguage.googleapis.com",
    VERTEX,
    RUN,
    "llm.dc1.example.internal",
)


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Wait until a condition holds."""
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, f"not true within {seconds} s"
        time.sleep(0.02)


def target(url: str, model: str, **auth: str) -> dict[str, Any]:
    found = auth or {"kind": "none"}
    return {"name": "t", "url": url, "model": model, "weight": 1, "auth": found}


def secret(kind: str) -> dict[str, str]:
    return {"kind": "secret", "secret": f"projects/acme/secrets/{kind}"}


BACKENDS: dict[str, dict[str, Any]] = {
    "claude": target("https://api.anthropic.com/v1", "claude-sonnet-4-5", **secret("anthropic")),
    "gemini-flash": target(
        f"https://{VERTEX}/v1/projects/acme/locations/us-central1/endpoints/openapi",
        "google/gemini-2.5-flash",
        kind="google",
    ),
    "gemini-key": target(
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "gemini-2.5-flash",
        **secret("gemini"),
    ),
    "gpt": target("https://api.openai.com/v1", "gpt-5-mini", **secret("openai")),
    "on-premises": target("http://llm.dc1.example.internal/v1", "qwen3-32b"),
    "small": target(
        f"https://{RUN}/v1",
        "gemma-3-4b",
        kind="id-token",
        audience=f"https://{RUN}",
        service_account=ACCOUNT,
    ),
}


class Secrets:
    """Secret Manager: the newest version of each secret."""

    def __init__(self) -> None:
        self.keys = dict(KEYS)
        self.reads = 0
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.reads += 1
                name = self.path.split("/")[5]
                data = base64.b64encode(outer.keys.get(name, "").encode()).decode()
                content = json.dumps({"payload": {"data": data}}).encode()
                self.send_response(200 if name in outer.keys else 404)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                del format, args

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)


class Relay:
    """The program, and everything that it calls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.is_granted = True
        self.providers = Providers(
            Grants(
                lambda project: self.is_granted and project == "acme",
                lambda account: account == ACCOUNT,
                lambda host, account: self.is_granted and (host, account) == (RUN, ACCOUNT),
            )
        )
        self.secrets = Secrets()
        self.elsewhere = serve(self.providers, free_port())
        for server in (self.elsewhere, self.secrets.server):
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        self.file = folder / "relay.yaml"
        self.log = folder / "relay.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.port = self.metrics_port = 0
        self.environment: dict[str, str] = {}

    def write(self, **more: Any) -> None:
        """Write the configuration: one target for each backend, or what a test changes."""
        backends = {
            name: {"timeout_seconds": 10, "targets": [found]} for name, found in BACKENDS.items()
        }
        backends |= more.pop("backends", {})
        fresh = self.file.with_suffix(".new")
        fresh.write_text(json.dumps({"backends": backends, **more}))
        fresh.rename(self.file)

    def start(self, *flags: str, **more: Any) -> None:
        """Start the program with a configuration."""
        self.write(**more)
        self.port, self.metrics_port = free_ports(2)
        elsewhere = f"127.0.0.1:{self.elsewhere.server_address[1]}"
        environment = {
            "GCE_METADATA_HOST": elsewhere,
            "IAM_CREDENTIALS_ENDPOINT": f"http://{elsewhere}",
            "RELAY_HOSTS": ",".join(f"{host}=http://{elsewhere}" for host in HOSTS),
            "SECRET_MANAGER_ENDPOINT": f"http://127.0.0.1:{self.secrets.server.server_address[1]}",
            **self.environment,
        }
        argv = [
            *(str(tool("relay")), "--config", str(self.file), "--address", "127.0.0.1"),
            *("--port", str(self.port), "--metrics-port", str(self.metrics_port)),
            *("--drain", "200ms", *flags),
        ]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(argv, stdout=log, stderr=log, env=environment)
        process = self.process
        until(lambda: process.poll() is not None or b'"serving"' in self.log.read_bytes())
        assert process.poll() is None, self.log.read_text()

    def stop(self) -> None:
        """End the program, and look that it ended well."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            assert self.process.wait(20) == 0

    def close(self) -> None:
        """End everything."""
        self.stop()
        for server in (self.elsewhere, self.secrets.server):
            server.shutdown()
            server.server_close()

    @contextmanager
    def client(self) -> Generator[openai.OpenAI]:
        """Yield a client of OpenAI's library, with a credential of its own."""
        with openai.DefaultHttpxClient(trust_env=False) as http_client:
            yield openai.OpenAI(
                base_url=f"http://127.0.0.1:{self.port}/v1",
                api_key="gki_of-a-client",
                max_retries=0,
                http_client=http_client,
            )

    def ask(self, model: str, **more: Any) -> requests.Response:
        """Send one request for 8 tokens."""
        body = {"model": model, "messages": [{"role": "user", "content": "Which door?"}], **more}
        url = f"http://127.0.0.1:{self.port}/v1/chat/completions"
        return requests.post(url, json=body, timeout=20)

    def metric(self, name: str) -> float:
        """Return the sum of a metric over its labels."""
        return sum(
            float(line.rsplit(" ", 1)[1])
            for line in self.page(self.metrics_port, "metrics").splitlines()
            if line.startswith(name)
        )

    def page(self, port: int, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=5) as answer:
            return answer.read().decode()

    def health(self) -> int:
        return requests.get(f"http://127.0.0.1:{self.port}/health", timeout=5).status_code
