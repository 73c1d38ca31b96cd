"""The loader of adapters as a process, and the bucket that it looks at."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from twin.cluster.agent.launch import plan
from twin.cluster.agent.launching.claims import Kind, kind_of
from twin.cluster.agent.launching.environment import ConfigError
from twin.cluster.agent.launching.hardware import NodeHardware
from twin.cluster.agent.launching.place import Place
from twin.cluster.agent.launching.volumes import Mount, MountError, Volumes
from twin.world.rules import Rules

LOADER = {
    "name": "adapter-loader",
    "image": "docker.io/vllm/vllm-openai:v1",
    "command": ["python3", "-c", "print(1)"],
}


def place(tmp_path: Path) -> Place:
    return Place(
        {"metadata": {"name": "p"}, "status": {"podIP": "127.64.0.9"}},
        NodeHardware("gpu", "nvidia-l4", 1),
        [Mount("/mnt/live-adapters", tmp_path, read_only=True)],
        {"ADAPTERS_FOLDER": "/mnt/live-adapters/m", "POD_IP": "127.64.0.9"},
        tmp_path / "kubeconfig",
        Rules(),
        Path,
    )


def test_the_loader_is_no_engine_though_it_runs_in_an_engines_image():
    assert kind_of(LOADER) is Kind.LOADER
    assert kind_of({**LOADER, "name": "vllm"}) is Kind.ENGINE


def test_the_loaders_own_program_runs_and_sees_the_folder_of_this_machine(tmp_path: Path):
    found = plan(LOADER, place(tmp_path))
    assert found.argv == [sys.executable, "-c", "print(1)"]
    assert found.environment["ADAPTERS_FOLDER"] == f"{tmp_path}/m"
    assert found.environment["POD_IP"] == "127.64.0.9"


def test_a_loader_with_another_command_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="no Python program in the command: sleep 1"):
        plan({**LOADER, "command": ["sleep", "1"]}, place(tmp_path))


@pytest.mark.parametrize(("read_only", "folder"), [(True, "gcs"), (False, "volumes/buckets")])
def test_a_bucket_that_is_only_read_shows_what_clients_uploaded(
    read_only: bool, folder: str, tmp_path: Path
):
    (tmp_path / "gcs" / "models").mkdir(parents=True)
    assert volumes(tmp_path, read_only).make() == {"b": tmp_path / folder / "models"}


@pytest.mark.parametrize("read_only", [True, False])
def test_a_bucket_that_does_not_exist_is_not_mounted(read_only: bool, tmp_path: Path):
    refusal = re.escape(
        'MountVolume.SetUp failed for volume "b" : rpc error: code = NotFound desc = '
        """failed to get GCS bucket "models": storage: bucket doesn't exist"""
    )
    with pytest.raises(MountError, match=refusal):
        volumes(tmp_path, read_only).make()
    assert list(tmp_path.iterdir()) == []


def volumes(folder: Path, read_only: bool) -> Volumes:
    """The volumes of a pod that mounts a bucket."""
    source = {
        "driver": "gcsfuse.csi.storage.gke.io",
        "readOnly": read_only,
        "volumeAttributes": {"bucketName": "models", "mountOptions": "implicit-dirs"},
    }
    pod: Any = {
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {"volumes": [{"name": "b", "csi": source}]},
    }
    no_kube: Any = None
    return Volumes(no_kube, pod, folder / "own", folder / "volumes", lambda *_: folder)
