"""Processes of operators: the user's configuration with this machine's addresses."""

from pathlib import Path

import pytest
import yaml

from gke_inference.operators.group_operator import operator_objects, operator_server
from twin.cluster.agent import names
from twin.cluster.agent.launching.environment import ConfigError
from twin.cluster.agent.launching.operators import settings
from twin.cluster.agent.launching.volumes import Mount

FILE = "controller_manager_config.yaml"


@pytest.fixture
def mounts(tmp_path: Path) -> list[Mount]:
    (tmp_path / "files").mkdir()
    text = operator_objects()["config"]["data"][FILE]
    (tmp_path / "files" / FILE).write_text(text)
    (tmp_path / "cert").mkdir()
    return [
        Mount("/tmp/k8s-webhook-server/serving-certs", tmp_path / "cert", True),
        Mount(f"/{FILE}", tmp_path / "files" / FILE, True),
    ]


def container() -> dict:
    return operator_server(1)["spec"]["template"]["spec"]["containers"][0]


def test_it_listens_on_loopback_and_reads_the_certificate_where_the_secret_is(mounts, tmp_path):
    found = settings(container(), {}, mounts, tmp_path)
    file = Path(found.arguments[0].removeprefix("--config="))
    config = yaml.safe_load(file.read_text())
    assert config["webhook"]["host"] == "127.0.0.1"
    assert config["webhook"]["certDir"] == str(tmp_path / "cert")
    assert found.ports[9443] == ("127.0.0.1", config["webhook"]["port"])
    assert found.ports[8081] == ("127.0.0.1", int(config["health"]["healthProbeBindAddress"][10:]))
    assert config["metrics"] == {"bindAddress": "0"}
    assert config["leaderElection"] == {"leaderElect": True}
    assert found.arguments[1:] == ["--zap-log-level=info"]


def test_two_operators_of_one_machine_have_different_ports(mounts, tmp_path):
    first = settings(container(), {}, mounts, tmp_path)
    second = settings(container(), {}, mounts, tmp_path)
    assert not set(first.ports.values()) & set(second.ports.values())


def test_an_operator_without_its_file_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="no file is mounted at"):
        settings(container(), {}, [], tmp_path)
    with pytest.raises(ConfigError, match="must name a file"):
        settings({"name": "manager", "args": []}, {}, [], tmp_path)


def group_pod(address: str | None = "127.64.0.9") -> dict:
    return {
        "metadata": {"name": "big-0", "namespace": "models"},
        "spec": {"hostname": "big-0", "subdomain": "big-0"},
        "status": {"podIP": address} if address else {},
    }


def test_a_pod_under_a_headless_service_is_found_by_its_name_until_it_is_gone(tmp_path):
    known = names.Names(tmp_path)
    known.tell(group_pod(None))
    assert names.look_up(tmp_path, "big-0.big-0.models") is None
    known.tell(group_pod())
    assert names.look_up(tmp_path, "big-0.big-0.models") == "127.64.0.9"
    assert names.look_up(tmp_path, "big-0.big-0.models.svc.cluster.local") == "127.64.0.9"
    known.tell(group_pod(), gone=True)
    assert names.look_up(tmp_path, "big-0.big-0.models") is None


def head_pod(address: str) -> dict:
    labels = {"ray.io/cluster": "big-0", "ray.io/node-type": "head"}
    return {
        "metadata": {"labels": labels, "name": "big-0-head-x", "namespace": "models"},
        "spec": {},
        "status": {"podIP": address},
    }


def test_the_head_of_a_ray_cluster_is_found_by_its_service_and_its_successor_keeps_the_name(
    tmp_path,
):
    known, name = names.Names(tmp_path), "big-0-head-svc.models.svc.cluster.local"
    known.tell(head_pod("127.64.0.9"))
    assert names.look_up(tmp_path, name) == "127.64.0.9"
    known.tell(head_pod("127.64.0.10"))
    known.tell(head_pod("127.64.0.9"), gone=True)
    assert names.look_up(tmp_path, name) == "127.64.0.10"


def test_a_pod_without_a_subdomain_has_no_name():
    assert names.name_of({"metadata": {"namespace": "n"}, "spec": {}}) is None
