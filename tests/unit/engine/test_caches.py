"""Programs that an engine compiled on GPU are available to the next server."""

import io
import tarfile
from pathlib import Path
from typing import IO, Any

import pytest

from tests.running.engine.conftest import serving
from workloads.engine import caches
from workloads.engine.bucket import BucketError
from workloads.engine.spec import Serving

ARCHIVE = "gs://caches/llama/0.32.0"


@pytest.fixture
def objects(monkeypatch, tmp_path) -> dict[str, bytes]:
    """Objects of a bucket by address."""
    found: dict[str, bytes] = {}

    class FakeBucket:
        def __init__(self, uri: str) -> None:
            self.uri = uri

        def fetch(self, name: str, out: IO[bytes]) -> int:
            return out.write(found.get(f"{self.uri}/{name}", b""))

        def write(self, name: str, content: IO[bytes], size: int) -> None:
            found[f"{self.uri}/{name}"] = content.read(size)

    monkeypatch.setattr(caches, "Bucket", FakeBucket)
    monkeypatch.setenv("GKE_INFERENCE_ROOT", str(tmp_path))
    return found


def server(**fields: Any) -> Serving:
    return serving(
        "gs://m/x", cache_folder="/home/engine/compiled", cache_archive=ARCHIVE, **fields
    )


def compiled(root: Path, *names: str) -> None:
    for name in names:
        file = root / "home/engine/compiled" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)


def test_a_server_finds_what_an_earlier_one_compiled(objects, tmp_path, monkeypatch):
    caches.fetch(server())
    assert caches.entries(server()) == 0
    compiled(tmp_path, "torch_compile_cache/a/rank_0_0/graph", "triton/kernel")
    caches.keep(server(), 0)
    monkeypatch.setenv("GKE_INFERENCE_ROOT", str(tmp_path / "second"))
    caches.fetch(server())
    assert caches.entries(server()) == 2
    kernel = tmp_path / "second/home/engine/compiled/triton/kernel"
    assert kernel.read_text() == "triton/kernel"


def test_a_server_that_compiled_nothing_new_writes_nothing(objects, tmp_path):
    compiled(tmp_path, "a")
    caches.keep(server(), 1)
    assert objects == {}


def test_what_was_found_is_kept_with_what_is_new(objects, tmp_path):
    compiled(tmp_path, "of-an-l4", "of-an-h100")
    caches.keep(server(), 1)
    with tarfile.open(fileobj=io.BytesIO(objects[f"{ARCHIVE}/compiled.tar"])) as archive:
        assert archive.getnames() == ["of-an-h100", "of-an-l4"]


def test_an_archive_that_is_broken_means_compiling(objects, capsys):
    objects[f"{ARCHIVE}/compiled.tar"] = b"half of it" * 100
    caches.fetch(server())
    assert caches.entries(server()) == 0
    assert "compiled programs are not taken over" in capsys.readouterr().out


def test_an_archive_cannot_write_outside_its_folder(objects, tmp_path):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        entry = tarfile.TarInfo("../../escaped")
        entry.size = 1
        archive.addfile(entry, io.BytesIO(b"x"))
    objects[f"{ARCHIVE}/compiled.tar"] = out.getvalue()
    caches.fetch(server())
    assert not (tmp_path / "home/escaped").exists()


def test_a_bucket_that_refuses_costs_the_cache_and_not_the_server(monkeypatch, tmp_path, capsys):
    def refuse(*_: object) -> None:
        raise BucketError("gs://caches answers 403 Forbidden")

    monkeypatch.setattr(caches.Bucket, "fetch", refuse)
    monkeypatch.setattr(caches.Bucket, "write", refuse)
    monkeypatch.setenv("GKE_INFERENCE_ROOT", str(tmp_path))
    caches.fetch(server())
    compiled(tmp_path, "a")
    caches.keep(server(), 0)
    assert "not kept: gs://caches answers 403 Forbidden" in capsys.readouterr().out


def test_on_tpu_the_mounted_folder_itself_is_kept(objects):
    on_tpu = serving("/models/m", cache_folder="/mnt/xla-cache/m")
    caches.fetch(on_tpu)
    caches.keep(on_tpu, 0)
    assert objects == {}
