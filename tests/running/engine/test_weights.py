"""Weights are served once they are whole, and never before."""

import hashlib
import json
import os
import threading
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

from tests.running.engine.conftest import manifest, point, serving, write_version
from workloads.engine import weights
from workloads.engine.diffusion import arguments
from workloads.engine.spec import ImageModel, Speculation
from workloads.engine.weights_manifest import (
    CURRENT_NAME,
    MANIFEST_NAME,
    Current,
    FileEntry,
    Manifest,
)

pytestmark = pytest.mark.needs_tools  # launcher and engine as processes


def waits_for(server) -> str:
    return server.until(lambda: server.get("/stage")[1].get("waits_for"))


@pytest.mark.parametrize("content", [None, b"weig"])
def test_a_version_whose_manifest_came_before_its_files_is_not_served(launch, content):
    server = launch(serving={"tpu": serving("/models/half")})
    folder: Path = server.folder / "root/models/half"
    folder.mkdir()
    if content is not None:
        (folder / "model.safetensors").write_bytes(content)
    (folder / MANIFEST_NAME).write_text(manifest(model_safetensors=7).dump())
    server.until(lambda: waits_for(server).startswith("/models/half/model.safetensors, as its"))
    (folder / "model.safetensors").write_bytes(b"weights")
    server.until(lambda: server.get("/readyz")[0] == 200)
    assert server.get("/stage")[1]["version"] == "v1"


def test_files_without_a_manifest_are_not_served_however_many_are_there(launch):
    server = launch(serving={"tpu": serving("/models/late")})
    folder: Path = server.folder / "root/models/late"
    folder.mkdir()
    index = {"weight_map": {"a": "model.safetensors"}}
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert waits_for(server) == "/models/late/_MANIFEST.json"
    write_version(folder)
    server.until(lambda: server.get("/readyz")[0] == 200)


def test_weights_are_found_without_listing_a_folder(tmp_path, monkeypatch):
    # A mount that has listed half an upload never shows the other half.
    def refuse(*_: object) -> None:
        raise AssertionError("a folder is listed")

    folder = tmp_path / "models/all"
    write_version(folder / "v1", "v1")
    point(folder, "v1")
    for name in ("listdir", "scandir", "walk"):
        monkeypatch.setattr(os, name, refuse)
    monkeypatch.setenv("GKE_INFERENCE_ROOT", str(tmp_path))
    found = weights.look(serving("/models/all", has_versions=True))
    assert found.serving.source == "/models/all/v1"


def test_the_engine_gets_the_folder_of_the_version_that_the_pointer_names(launch):
    served = serving("/models/all", has_versions=True)
    server = launch(
        "--",
        "vllm",
        "serve",
        "/models/all",
        "--served-model-name=m",
        f"--port={served.port}",
        "--lora-modules",
        "sql=/models/all/adapters/sql",
        more={"FAKE_ARGUMENTS": "arguments.json"},
        serving={"tpu": served},
    )
    folder: Path = server.folder / "root/models/all"
    assert waits_for(server) == "/models/all/_CURRENT.json"
    write_version(folder / "v1", "v1")
    write_version(folder / "v2", "v2")
    point(folder, "v2")
    server.until(lambda: server.get("/readyz")[0] == 200)
    words = json.loads((server.folder / "arguments.json").read_text())["argv"]
    assert words[1] == "/models/all/v2"
    assert words[-1] == "sql=/models/all/adapters/sql", "adapters are beside the versions"
    assert server.get("/stage")[1]["version"] == "v2"


def test_a_folder_that_holds_another_version_is_not_served(launch):
    server = launch(serving={"tpu": serving("/models/m", version="v2")})
    assert waits_for(server) == "version v2 in /models/m, which has v1"


def test_a_manifest_that_cannot_be_read_is_not_served(launch):
    server = launch(serving={"tpu": serving("/models/bad")})
    folder: Path = server.folder / "root/models/bad"
    folder.mkdir()
    (folder / MANIFEST_NAME).write_text("{}")
    expected = "a good /models/bad/_MANIFEST.json (format: must be 1"
    server.until(lambda: waits_for(server).startswith(expected))


def test_the_draft_model_and_the_adapters_of_a_server_are_waited_for_too(launch):
    guess = Speculation("draft", 4, "/models/draft")
    server = launch(
        serving={
            "tpu": serving("/models/m", speculation=guess, adapters={"sql": "/models/adapters/sql"})
        }
    )
    root: Path = server.folder / "root/models"
    assert waits_for(server) == "/models/draft/_MANIFEST.json"
    write_version(root / "draft")
    server.until(lambda: waits_for(server) == "/models/adapters/sql/_CURRENT.json")
    (root / "adapters/sql").mkdir(parents=True)
    (root / "adapters/sql/adapter_config.json").write_text("{}")
    server.until(lambda: waits_for(server).endswith("/adapter_model.safetensors"))
    (root / "adapters/sql/adapter_model.bin").write_bytes(b"x")
    server.until(lambda: server.get("/readyz")[0] == 200)


def test_an_adapter_is_read_from_the_version_that_its_pointer_names(tmp_path, monkeypatch):
    folder = tmp_path / "models/adapters/sql"
    write_version(tmp_path / "models/m")
    write_version(folder / "v1", "v1")
    write_version(folder / "v2", "v2")
    point(folder, "v2")
    monkeypatch.setenv("GKE_INFERENCE_ROOT", str(tmp_path))
    found = weights.look(serving("/models/m", adapters={"sql": "/models/adapters/sql"}))
    assert found.serving.adapters == {"sql": "/models/adapters/sql/v2"}
    words = found.words(["serve", "/models/m", "sql=/models/adapters/sql", "/models/adapters/sql2"])
    assert words[2:] == ["sql=/models/adapters/sql/v2", "/models/adapters/sql2"]


def test_a_further_image_model_is_read_from_the_version_that_its_pointer_names(
    tmp_path, monkeypatch
):
    write_version(tmp_path / "models/m")
    write_version(tmp_path / "models/mini/v2", "v2")
    point(tmp_path / "models/mini", "v2")
    monkeypatch.setenv("GKE_INFERENCE_ROOT", str(tmp_path))
    further = {"mini": ImageModel("/models/mini", has_versions=True, steps=20)}
    served = serving("/models/m", engine="diffusion", image_models=further)
    found = weights.look(served)
    assert found.words(arguments(served)) == arguments(found.serving)
    assert found.serving.image_models["mini"].source == "/models/mini/v2"
    with pytest.raises(weights.MissingError, match=r"^/models/other/"):
        weights.look(replace(served, image_models={"o": ImageModel("/models/other")}))


def test_a_half_uploaded_version_of_an_adapter_is_not_served(tmp_path, monkeypatch):
    folder = tmp_path / "models/adapters/sql"
    write_version(tmp_path / "models/m")
    write_version(folder / "v1", "v1")
    point(folder, "v1")
    (folder / "v1/model.safetensors").unlink()
    monkeypatch.setenv("GKE_INFERENCE_ROOT", str(tmp_path))
    with pytest.raises(weights.MissingError, match=r"sql/v1/model\.safetensors, as its manifest"):
        weights.look(serving("/models/m", adapters={"sql": "/models/adapters/sql"}))


def test_waiting_for_weights_passes_the_startup_probe_and_is_alive_and_not_ready(launch):
    server = launch(serving={"tpu": serving("/models/late")})
    waits_for(server)
    answers = [server.get(path)[0] for path in ("/startz", "/healthz", "/readyz")]
    assert answers == [200, 200, 503]
    assert server.end() == 0


def test_the_startup_probe_counts_while_an_engine_loads_that_never_waited(launch):
    server = launch(more={"FAKE_HOLD": "hold"})
    server.until(lambda: server.is_at("load"))
    assert server.get("/startz")[0] == 503
    (server.folder / "hold").touch()
    server.until(lambda: server.get("/startz")[0] == 200)


def test_the_time_to_load_begins_when_the_weights_are_there(launch):
    server = launch(
        more={"FAKE_HOLD": "hold"}, serving={"tpu": serving("/models/late")}, start_seconds=1
    )
    waits_for(server)
    server.until(lambda: server.get("/stage")[1]["seconds_in_stage"] > 1.5)
    assert server.get("/healthz")[0] == 200, "waiting takes nothing of it"
    write_version(server.folder / "root/models/late")
    server.until(lambda: server.is_at("load"))
    server.until(lambda: server.get("/stage")[1]["seconds_in_stage"] > 1.2)
    assert server.get("/healthz")[0] == 503, "the kubelet starts it again"


def test_a_worker_of_a_group_becomes_its_engine_once_the_weights_are_there(launch):
    server = launch(
        "--worker",
        "--",
        "sh",
        "-c",
        "echo reads $0",
        "/models/all",
        serving={"tpu": serving("/models/all", has_versions=True)},
    )
    folder: Path = server.folder / "root/models/all"
    server.until(lambda: "waiting for weights" in server.log.read_text())
    write_version(folder / "v7", "v7")
    point(folder, "v7")
    assert server.process.wait(30) == 0
    assert server.log.read_text().splitlines()[-1] == "reads /models/all/v7"


class FakeStorage(BaseHTTPRequestHandler):
    objects: dict[str, bytes]
    token = "signed"

    def do_GET(self) -> None:
        if self.path.endswith("/service-accounts/default/token"):
            return self.answer(200, {"access_token": self.token, "expires_in": 3600})
        url = urlparse(self.path)
        bucket, _, name = url.path.removeprefix("/storage/v1/b/").partition("/o/")
        body = self.objects.get(f"{bucket}/{unquote(name)}")
        if body is None:
            return self.answer(404, {})
        if url.query == "alt=media":
            return self.answer(200, body)
        return self.answer(200, {"size": str(len(body)), "crc32c": checksum(body)})

    def answer(self, status: int, body: bytes | dict[str, object]) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def checksum(body: bytes) -> str:
    """Not CRC-32C: the launcher compares what the bucket says, and computes nothing."""
    return b64encode(hashlib.sha256(body).digest()[:4]).decode()


@pytest.fixture
def storage() -> Iterator[tuple[str, dict[str, bytes]]]:
    objects: dict[str, bytes] = {}
    handler = type("Storage", (FakeStorage,), {"objects": objects})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", objects
        server.shutdown()


def streamed(body: bytes) -> str:
    file = FileEntry("model.safetensors", len(body), checksum(body), "0" * 64)
    return Manifest("m", "v1", "2026-11-22T00:00:00Z", (file,)).dump()


def test_an_engine_that_streams_waits_for_the_manifest_in_the_bucket_itself(launch, storage):
    url, objects = storage
    server = launch(
        more={"STORAGE_EMULATOR_HOST": url, "FAKE_ARGUMENTS": "arguments.json"},
        serving={"tpu": serving("gs://models/m", has_versions=True)},
    )
    assert waits_for(server) == f"gs://models/m/{CURRENT_NAME}"
    objects[f"models/m/{CURRENT_NAME}"] = Current("v1").dump().encode()
    server.until(lambda: waits_for(server) == f"gs://models/m/v1/{MANIFEST_NAME}")
    objects[f"models/m/v1/{MANIFEST_NAME}"] = streamed(b"weights").encode()
    objects["models/m/v1/model.safetensors"] = b"weighty"
    server.until(lambda: waits_for(server).startswith("gs://models/m/v1/model.safetensors, as"))
    objects["models/m/v1/model.safetensors"] = b"weights"
    server.until(lambda: server.get("/readyz")[0] == 200)
    given = json.loads((server.folder / "arguments.json").read_text())
    assert given["argv"][1] == "gs://models/m/v1"
    assert "--load-format=runai_streamer" in given["argv"]


def test_a_bucket_that_does_not_answer_is_waited_for_and_named(launch):
    server = launch(
        more={"STORAGE_EMULATOR_HOST": "127.0.0.1:1"}, serving={"tpu": serving("gs://models/m")}
    )
    assert waits_for(server).startswith("gs://models does not answer: ")
    assert server.get("/healthz")[0] == 200
