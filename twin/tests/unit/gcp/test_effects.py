"""Files that effects write for other parts of the twin, and that they read."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from twin.providers.gcp.effects import pool_files
from twin.providers.gcp.effects.bucket import content_of
from twin.providers.gcp.effects.cluster import inline_pools
from twin.tests.unit.gcp.conftest import PROJECT, Cloud
from twin.wire.property_values import ASSET_SIGNATURE, SIGNATURE_KEY, CloudError

POOL = {"name": "p", "nodeCount": 2}


def _status(folder: Path, ready: int, error: str | None = None, digest: str = "") -> None:
    content = {"ready": ready, "wanted": 2, "error": error}
    if digest:
        content["digest"] = digest
    (folder / "pools" / "p.status.json").write_text(json.dumps(content))


def test_a_pool_is_asked_for_with_inputs_and_zones(tmp_path: Path) -> None:
    pool_files.write(tmp_path, POOL, ("us-east5-a",))
    asked = json.loads((tmp_path / "pools" / "p.json").read_text())
    assert (asked["name"], asked["inputs"], asked["zones"]) == ("p", POOL, ["us-east5-a"])


def test_a_pool_is_ready_when_all_its_nodes_are(tmp_path: Path) -> None:
    pool_files.write(tmp_path, POOL, ("us-east5-a",))
    _status(tmp_path, ready=2)
    pool_files.wait_ready(tmp_path, "p", timeout=5)
    _status(tmp_path, ready=1)
    with pytest.raises(CloudError, match="timed out after 0 s with 1 of 2 nodes ready"):
        pool_files.wait_ready(tmp_path, "p", timeout=0.2)


def test_the_status_of_the_shape_before_is_not_taken_for_that_of_the_new_one(
    tmp_path: Path,
) -> None:
    def answer() -> None:
        digest = json.loads((tmp_path / "pools" / "p.json").read_text())["digest"]
        _status(tmp_path, ready=2, digest=digest)

    pool_files.write(tmp_path, POOL, ("us-east5-a",))
    answer()
    pool_files.wait_ready(tmp_path, "p", timeout=5)
    pool_files.write(tmp_path, {**POOL, "nodeCount": 3}, ("us-east5-a",))
    with pytest.raises(CloudError, match="timed out"):
        pool_files.wait_ready(tmp_path, "p", timeout=0.2)
    answer()
    pool_files.wait_ready(tmp_path, "p", timeout=5)


def test_a_stock_out_fails_a_pool_in_googles_words(tmp_path: Path) -> None:
    pool_files.write(tmp_path, POOL, ("us-east5-a",))
    _status(tmp_path, ready=0, error="GCE_STOCKOUT: no ct6e-standard-4t in us-east5-a")
    with pytest.raises(CloudError, match="GCE_STOCKOUT"):
        pool_files.wait_ready(tmp_path, "p", timeout=5)


def test_a_pool_has_gone_when_its_status_has(tmp_path: Path) -> None:
    pool_files.write(tmp_path, POOL, ("us-east5-a",))
    _status(tmp_path, ready=2)

    def controller() -> None:
        while (tmp_path / "pools" / "p.json").exists():
            time.sleep(0.02)
        (tmp_path / "pools" / "p.status.json").unlink()

    thread = threading.Thread(target=controller)
    thread.start()
    pool_files.remove(tmp_path, "p", timeout=5)
    thread.join(5)
    assert list((tmp_path / "pools").iterdir()) == []
    pool_files.remove(tmp_path, "p", timeout=5)


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ({"initialNodeCount": 1}, ["default-pool"]),
        ({"initialNodeCount": 1, "removeDefaultNodePool": True}, []),
        ({"enableAutopilot": True}, []),
        ({"nodePools": [{"name": "a"}, {"nodeCount": 1}]}, ["a", "pool-1"]),
    ],
)
def test_a_cluster_brings_along_the_pools_google_would_make(
    values: dict[str, Any], names: list[str]
) -> None:
    assert [pool["name"] for pool in inline_pools(values)] == names


def test_an_object_is_read_from_text_file_and_asset(tmp_path: Path) -> None:
    file = tmp_path / "weights"
    file.write_bytes(b"\x00\x01")
    asset = {SIGNATURE_KEY: ASSET_SIGNATURE, "path": str(file)}
    assert content_of({"content": "text"}) == b"text"
    assert content_of({"source": {SIGNATURE_KEY: ASSET_SIGNATURE, "text": "t"}}) == b"t"
    assert content_of({"source": asset}) == b"\x00\x01"
    with pytest.raises(CloudError, match="no file /nowhere"):
        content_of({"source": {**asset, "path": "/nowhere"}})


def test_the_files_of_a_filestore_instance_go_with_it(cloud: Cloud) -> None:
    cloud.create("gcp:compute/network:Network", "net", {"name": "net", "project": PROJECT})
    inputs = {
        "fileShares": {"capacityGb": 1024, "name": "shared"},
        "location": "us-central1-b",
        "name": "shared-us",
        "networks": [{"modes": ["MODE_IPV4"], "network": "net"}],
        "project": PROJECT,
        "tier": "ZONAL",
    }
    made = cloud.create("gcp:filestore/instance:Instance", "shared", inputs)
    folder = cloud.paths.root / "filestore" / "shared-us"
    (folder / "shared" / "adapter").mkdir(parents=True)
    cloud.delete(made)
    assert not folder.exists()
