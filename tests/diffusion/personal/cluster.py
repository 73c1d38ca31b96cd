"""The API server of a cluster, for jobs alone, which runs their pods as processes."""

import json
import re
import ssl
import subprocess
import threading
import urllib.parse
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.diffusion.warm import WARM, environment
from twin.host.paths import REPOSITORY

TOKEN = "the worker's own"
_PATH = re.compile(r"/api(?:s/batch)?/v1/namespaces/jobs-images/(jobs|configmaps)(?:/([^?]+))?")
_IMAGES = "/mnt/images"


class Cluster:
    """Jobs and ConfigMaps of one namespace.

    A pod runs the command of its container. Its mount of the bucket is a folder, filled when the
    pod begins. As the policy of the Job says, exit code 143 is no failure: another pod begins.

    Args:
        folder: Folder of the pods.
        tls: Certificate of the server.
        mount: Writes the bucket's objects below a prefix into a folder.
    """

    def __init__(
        self, folder: Path, tls: ssl.SSLContext, mount: Callable[[str, Path], None]
    ) -> None:
        self.created: list[str] = []
        """Names of all jobs that were created."""
        self.pods: list[subprocess.Popen[bytes]] = []
        """All pods, each a process."""
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self._folder, self._mount = folder, mount
        self._lock = threading.RLock()
        handler = type("Handler", (_Handler,), {"cluster": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def create(self, kind: str, obj: dict[str, Any]) -> bool:
        """Create an object, and the pod of a Job; False: there is one of this name."""
        name = obj["metadata"]["name"]
        with self._lock:
            if (kind, name) in self.objects:
                return False
            self.objects[kind, name] = obj
        if kind == "jobs":
            self.created.append(name)
            threading.Thread(target=self._run, args=(name, obj), daemon=True).start()
        return True

    def delete(self, kind: str, name: str) -> bool:
        """Delete an object; the pod of a Job ends first."""
        with self._lock:
            found = self.objects.pop((kind, name), None)
        if kind == "jobs" and found is not None:
            self.stop()
        return found is not None

    def preempt(self) -> None:
        """End the running pod, as the kubelet of a machine that is preempted does."""
        self.pods[-1].terminate()
        self.pods[-1].wait(60)

    def stop(self) -> None:
        """End all pods."""
        for pod in self.pods:
            if pod.poll() is None:
                pod.kill()
                pod.wait(10)

    def close(self) -> None:
        """End everything."""
        self.objects.clear()
        self.stop()
        self._server.shutdown()
        self._server.server_close()

    def _run(self, name: str, job: dict[str, Any]) -> None:
        status = 143
        while status == 143 and ("jobs", name) in self.objects:
            with self._lock:
                self.pods.append(self._pod(job))
            status = self.pods[-1].wait()
        done = {"type": "Complete", "status": "True"}
        failed = {"type": "Failed", "status": "True", "reason": f"exit code {status}"}
        job["status"] = {"conditions": [done if status == 0 else failed]}

    def _pod(self, job: dict[str, Any]) -> "subprocess.Popen[bytes]":
        spec = job["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        (config,) = [each["configMap"]["name"] for each in spec["volumes"] if "configMap" in each]
        own = self._folder / f"pod-{len(self.pods)}"
        own.mkdir()
        training = json.loads(self.objects["configmaps", config]["data"]["train.json"])
        prefix = training["images"].removeprefix(f"{_IMAGES}/")
        self._mount(prefix, own / "images")
        training["images"] = str(own / "images" / prefix)
        (own / "train.json").write_text(json.dumps(training))
        mounted = {"python3": WARM.python(), "/etc/train/train.json": own / "train.json"}
        with (own / "log").open("wb") as log:
            return subprocess.Popen(
                [str(mounted.get(word, word)) for word in container["command"]],
                cwd=REPOSITORY,
                env=environment(),
                stdout=log,
                stderr=log,
            )


class _Handler(BaseHTTPRequestHandler):
    cluster: Cluster
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        kind, name = self._asked()
        if name is not None:
            self._answer(404, 200, self.cluster.objects.get((kind, name)))
            return
        label, _, value = urllib.parse.unquote(self.path.partition("labelSelector=")[2]).partition(
            "="
        )
        found = [
            obj
            for (of, _), obj in list(self.cluster.objects.items())
            if of == kind and obj["metadata"]["labels"].get(label) == value
        ]
        self._answer(404, 200, {"items": found})

    def do_POST(self) -> None:
        kind, _ = self._asked()
        obj = self._body()
        self._answer(409, 201, obj if self.cluster.create(kind, obj) else None)

    def do_DELETE(self) -> None:
        kind, name = self._asked()
        self._body()
        self._answer(404, 200, {} if self.cluster.delete(kind, str(name)) else None)

    def _asked(self) -> tuple[str, str | None]:
        match = _PATH.match(self.path)
        assert match is not None, self.path
        assert self.headers["authorization"] == f"Bearer {TOKEN}"
        return match[1], match[2]

    def _body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)))

    def _answer(self, without: int, status: int, found: Any) -> None:
        body = json.dumps({} if found is None else found).encode()
        self.send_response(without if found is None else status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name
        del format, args
