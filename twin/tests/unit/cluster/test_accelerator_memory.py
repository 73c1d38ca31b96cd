"""The page with the memory of accelerators, which Prometheus reads."""

import json
import os
from pathlib import Path

from twin.cluster.monitoring.accelerator_memory import MEMORY_SUFFIX, page
from twin.host.processes import started_at

CLUSTER = {"project_id": "acme", "location": "us-east5", "cluster_name": "c"}
HELD = {"make": "nvidia", "model": "nvidia-l4", "chips": 2, "total": 24, "used": 20}


def write(pods: Path, uid: str, started: str | None) -> None:
    """Write the files of a pod whose engine is this process."""
    folder = pods / "models" / uid
    folder.mkdir(parents=True)
    (folder / "pod.json").write_text(json.dumps({"name": f"chat-{uid}"}))
    (folder / f"server{MEMORY_SUFFIX}").write_text(json.dumps(HELD))
    record = {"pid": os.getpid(), "started": started}
    (folder / "server.process.json").write_text(json.dumps(record))


def test_each_chip_of_a_running_container_has_its_memory_with_the_labels_of_gke(tmp_path: Path):
    write(tmp_path, "a", started_at(os.getpid()))
    write(tmp_path, "b", "of another process")
    labels = (
        'project_id="acme",location="us-east5",cluster_name="c",namespace_name="models",'
        'pod_name="chat-a",container_name="server",make="nvidia",model="nvidia-l4"'
    )
    used, total = (
        f"kubernetes_io:container_accelerator_memory_{word}" for word in ("used", "total")
    )
    assert page(tmp_path, CLUSTER).splitlines() == [
        f"# TYPE {used} gauge",
        f'{used}{{{labels},accelerator_id="0"}} 20',
        f'{used}{{{labels},accelerator_id="1"}} 20',
        f"# TYPE {total} gauge",
        f'{total}{{{labels},accelerator_id="0"}} 24',
        f'{total}{{{labels},accelerator_id="1"}} 24',
    ]
