"""The job that moves weights: the real engine applies it, and its own program runs."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts.models.in_cluster import program_files
from tests.platform.weights.hub import serve
from twin import daemon
from twin.cluster.base.context import ClusterContext
from twin.engines.real.tiny_model import write_model
from twin.host.paths import WORKLOADS, TwinPaths
from twin.host.processes import process_environment
from twin.providers.gcp import server as gcp
from twin.providers.gcp.effects import gcs
from twin.providers.kubernetes import server as kubernetes
from twin.pulumi.environment import pulumi_environment
from twin.tests.running.plane import control_plane, system_node
from twin.tests.tools import needed
from twin.toolchain import tool
from twin.world.store import Record, Store
from workloads.engine.weights_manifest import MANIFEST_NAME, Manifest, check_folder
from workloads.transfer.store import Store as Buckets
from workloads.transfer.verify import verify
from workloads.transfer.versions import Home, read_current
from workloads.transfer.work import Crew, Silent

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(300)]
BUCKETS = ("weights-us", "weights-eu")
JOB = "weights-llama"
NAMESPACE = "models"
PROGRAM = f"""
import json
import pathlib
import pulumi
import pulumi_kubernetes as k8s
from pulumi_gcp import storage
from gke_inference import WeightsJob

provider = k8s.Provider("cluster", kubeconfig=pathlib.Path("kubeconfig").read_text())
opts = pulumi.ResourceOptions(provider=provider)
home = k8s.core.v1.Namespace("home", metadata={{"name": "{NAMESPACE}"}}, opts=opts)
buckets = [
    storage.Bucket(name, name=name, location="US-EAST5", project="acme", force_destroy=True)
    for name in {BUCKETS}
]
job = WeightsJob(
    "llama",
    {{
        "buckets": {list(BUCKETS)},
        "disk": {{
            "disk_name": "weights-llama-fill",
            "size_gib": 50,
            "snapshot_name": "llama-v1",
            "zone": "us-east5-a",
        }},
        "folder": "llama",
        "job_name": "{JOB}",
        "namespace": "{NAMESPACE}",
        "project": "acme",
        "project_number": "42",
        "program": json.loads(pathlib.Path("program.json").read_text()),
        "repository": "acme/llama",
        "scratch_gib": 40,
    }},
    pulumi.ResourceOptions(provider=provider, depends_on=[home, *buckets]),
)
pulumi.export("snapshot", job.snapshot)
"""


class Deployment:
    """A program under the real engine, with the twin's providers and a cluster."""

    def __init__(self, folder: Path, context: ClusterContext, ports: dict[str, int]) -> None:
        self.paths, self.kube, self._folder = context.paths, context.kube, folder
        folder.mkdir()
        (folder / "Pulumi.yaml").write_text("name: job\nruntime: python\nmain: .\n")
        (folder / "__main__.py").write_text(PROGRAM)
        (folder / "program.json").write_text(json.dumps(program_files(WORKLOADS)))
        (folder / "kubeconfig").write_text(context.kubeconfig.read_text())
        self._environment = {**os.environ, **pulumi_environment(context.paths, ports)}
        self.run("stack", "init", "test")

    def run(self, *arguments: str) -> str:
        ran = subprocess.run(
            [str(tool("pulumi")), *arguments, "--non-interactive"],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    def record(self, kind: str) -> Record:
        (found,) = [
            each for each in Store(self.paths.cloud_db).all() if each.type.endswith(f":{kind}")
        ]
        return found

    def get(self, path: str) -> Any:
        return self.kube.get(path)


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    needed("pulumi", "fake-gcs-server")
    root = tmp_path_factory.mktemp("job")
    planes = control_plane(TwinPaths(root / "twin"), "kwok")
    context = next(planes)
    before = dict(os.environ)
    os.environ.update(process_environment(context.paths))
    hub = serve("acme/llama", write_model(root / "hub"))
    os.environ["HF_ENDPOINT"] = hub.__enter__()
    servers = {"gcp": gcp.serve(context.paths), "kubernetes": kubernetes.serve(context.paths)}
    try:
        context.kube.post("/api/v1/nodes", system_node())
        made = Deployment(root / "program", context, {k: port for k, (_, port) in servers.items()})
        made.run("up", "--yes", "--skip-preview")
        yield made
    finally:
        hub.__exit__(None, None, None)
        for server, _ in servers.values():
            server.stop(None)
        os.environ.clear()
        os.environ.update(before)
        next(planes, None)  # stops the control plane
        daemon.shut_down(context.paths)  # and the object storage


def test_the_job_ends_on_a_node_of_its_own_class(deployed: Deployment) -> None:
    job = deployed.get(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{JOB}")
    assert job["status"]["succeeded"] == 1
    selector = f"?labelSelector=job-name%3D{JOB}"
    (pod,) = deployed.kube.list(f"/api/v1/namespaces/{NAMESPACE}/pods{selector}")
    node = deployed.get(f"/api/v1/nodes/{pod['spec']['nodeName']}")
    assert node["metadata"]["labels"]["cloud.google.com/compute-class"] == JOB
    assert node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "us-east5-a"


def test_its_volumes_are_the_scratch_space_and_the_disk_that_it_fills(deployed: Deployment) -> None:
    claims = deployed.kube.list(f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims")
    filled = next(each for each in claims if each["metadata"]["name"] == f"{JOB}-disk")
    volume = deployed.get(f"/api/v1/persistentvolumes/{filled['spec']['volumeName']}")
    handle = volume["spec"]["csi"]["volumeHandle"]
    assert handle == "projects/acme/zones/us-east5-a/disks/weights-llama-fill"
    assert filled["status"]["phase"] == "Bound"


def test_the_snapshot_is_taken_of_the_filled_disk_after_the_job(deployed: Deployment) -> None:
    snapshot, disk = deployed.record("Snapshot"), deployed.record("Disk")
    assert (snapshot.name, disk.name) == ("llama-v1", "weights-llama-fill")
    assert snapshot.inputs["sourceDisk"] == "projects/acme/zones/us-east5-a/disks/" + disk.name
    assert "llama-v1" in deployed.run("stack", "output", "snapshot")


def test_the_job_fills_the_disk_and_both_buckets_from_the_hub(deployed: Deployment) -> None:
    selector = f"?labelSelector=job-name%3D{JOB}"
    (pod,) = deployed.kube.list(f"/api/v1/namespaces/{NAMESPACE}/pods{selector}")
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    (disk,) = deployed.paths.volumes.glob("disks/*weights-llama-fill")
    manifest = Manifest.parse((disk / MANIFEST_NAME).read_text())
    assert check_folder(disk, manifest) == []
    buckets = Buckets("acme", endpoint=gcs.url(deployed.paths))
    for bucket in BUCKETS:
        home = Home(bucket, "llama")
        assert read_current(buckets, home) == manifest.version
        assert verify(buckets, home, manifest.version, Crew(2), Silent(), is_deep=True) == []


def test_the_engine_finds_nothing_to_change_and_keeps_the_snapshot(deployed: Deployment) -> None:
    assert "unchanged" in deployed.run("preview", "--expect-no-changes")
    deployed.run("destroy", "--yes", "--skip-preview")
    assert deployed.record("Snapshot").name == "llama-v1"
    assert json.loads(deployed.run("stack", "export"))["deployment"].get("resources", []) == []
