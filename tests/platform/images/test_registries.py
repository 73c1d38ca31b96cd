"""Pin and mirror against real registries on this machine, with real manifests."""

import json
import re
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.plan import resolve
from infra.plan.image_names import ImagesPlan
from infra.reading.load import STACKS, parse, platform_of
from scripts.images import actions as images_actions
from scripts.images import files as images_files
from scripts.images.registry import Registry, RegistryError
from twin.host.ports import free_port
from twin.tests.tools import needed
from twin.toolchain import tool

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(120)]
REGIONS = ("us-central1", "europe-west4", "asia-northeast1")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    """Starts registries on loopback; gives their addresses."""
    crane = needed("crane")
    running: list[subprocess.Popen[bytes]] = []

    def begin() -> str:
        address = f"127.0.0.1:{free_port()}"
        with (tmp_path / f"registry-{len(running)}.log").open("wb") as log:
            running.append(
                subprocess.Popen(
                    [crane, "registry", "serve", "--address", address], stdout=log, stderr=log
                )
            )
        end = time.monotonic() + 30
        while subprocess.run(
            [crane, "catalog", address], capture_output=True, check=False
        ).returncode:
            assert time.monotonic() < end, "the registry does not answer"
        return address

    yield begin
    for process in running:
        process.terminate()
        process.wait(timeout=10)


def push(tmp_path: Path, reference: str) -> str:
    """Push an index of two platforms with a real layer each; return its digest."""
    crane = str(tool("crane"))
    made: list[str] = []
    for platform in ("linux/amd64", "linux/arm64"):
        name = platform.replace("/", "-")
        (tmp_path / f"{name}.txt").write_text(f"{reference} {platform}\n" * 100)
        with tarfile.open(tmp_path / f"{name}.tar", "w") as tar:
            tar.add(tmp_path / f"{name}.txt", arcname="engine.txt")
        part = f"{reference.rpartition(':')[0]}:{name}"
        layer = str(tmp_path / f"{name}.tar")
        subprocess.run([crane, "append", "-f", layer, "-t", part], check=True, capture_output=True)
        subprocess.run(
            [crane, "mutate", part, "--set-platform", platform, "-t", part],
            check=True,
            capture_output=True,
        )
        made += ["-m", part]
    subprocess.run(
        [crane, "index", "append", *made, "-t", reference], check=True, capture_output=True
    )
    answer = subprocess.run(
        [crane, "digest", reference], check=True, capture_output=True, text=True
    )
    return answer.stdout.strip()


def stack(**images: Any) -> Any:
    document = platform_of(STACKS / "Pulumi.prod.yaml")
    document["images"] = {"repository": "engines", **images}
    return parse(json.dumps(document))


def images_of(**images: Any) -> ImagesPlan:
    return resolve(stack(**images)).images


def test_an_image_is_pinned_mirrored_to_every_region_and_pinned_in_the_stack(
    start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream = start()
    regions = {f"{region}-docker.pkg.dev": start() for region in REGIONS}
    registry = Registry(hosts={"registry.k8s.io": upstream, **regions})
    name = "gateway-api-inference-extension/epp:v1.5.0"
    digest = push(tmp_path, f"{upstream}/{name}")

    # pin: the lock learns what the tag is
    copy = tmp_path / "versions.yaml"
    copy.write_text(images_files.LOCK.read_text())
    made = images_actions.pin_lock(registry, ["endpoint_picker"], print)
    assert made["images.endpoint_picker"][0] == digest
    images_files.write_lock(made, copy)
    assert f"digest: {digest}" in copy.read_text()

    # mirror: by that digest, with both platforms
    monkeypatch.setattr(images_actions, "images", lambda: {**_images(), **_pinned(digest)})
    done = images_actions.mirror(registry, images_of(), ["endpoint_picker"], print, dry_run=False)
    assert done == {"epp": digest}
    for region in REGIONS:
        target = f"{region}-docker.pkg.dev/acme-inference-prod/engines/epp"
        assert registry.digest(f"{target}:v1.5.0") == digest
        assert 0 < registry.size_bytes(f"{target}@{digest}") < 10_000

    monkeypatch.undo()
    # pin --stack: what is there now is what the stack says
    found = images_actions.pin_stack(registry, images_of(), "abc", ["endpoint_picker"], print)
    assert found == {"epp": digest}
    rows = {row.name: row for row in images_actions.rows(images_of(digests=found), "europe-west4")}
    assert rows["endpoint_picker"].reference == (
        f"europe-west4-docker.pkg.dev/acme-inference-prod/engines/epp@{digest}"
    )


def test_a_tag_that_nobody_pushed_is_an_error_with_its_name(start: Any) -> None:
    registry = Registry(hosts={"registry.k8s.io": start()})
    with pytest.raises(RegistryError, match=r"registry\.k8s\.io/lws/lws:v9: .*NAME_UNKNOWN"):
        registry.digest("registry.k8s.io/lws/lws:v9")


def test_our_own_image_is_pinned_at_the_commit_that_it_was_built_from(
    start: Any, tmp_path: Path
) -> None:
    regions = {f"{region}-docker.pkg.dev": start() for region in REGIONS}
    registry = Registry(hosts=regions)
    first, *others = [f"{address}/acme-inference-prod/engines" for address in regions.values()]
    digest = push(tmp_path, f"{first}/vllm-tpu:0.29.0-abc")
    said: list[str] = []
    assert images_actions.pin_stack(registry, images_of(), "abc", ["vllm_tpu"], said.append) == {}
    assert re.search("must be the same image in", said[-1])
    for other in others:
        registry.copy(f"{first}/vllm-tpu@{digest}", f"{other}/vllm-tpu:0.29.0-abc")
    found = images_actions.pin_stack(registry, images_of(), "abc", ["vllm_tpu"], said.append)
    assert found == {"vllm-tpu": digest}
    assert images_actions.pin_stack(registry, images_of(), "def", ["vllm_tpu"], said.append) == {}


def _images() -> Any:
    from gke_inference.catalogue.versions import images  # noqa: PLC0415

    return images()


def _pinned(digest: str) -> Any:
    from dataclasses import replace  # noqa: PLC0415

    return {"endpoint_picker": replace(_images()["endpoint_picker"], digest=digest)}
