"""What waits until a new cluster has GKE's own kinds."""

import json
import threading
import urllib.error
import urllib.request

import pytest

from gke_inference.operators import kinds_program
from gke_inference.operators.cluster_kinds import NAME, PORT, ClusterKinds, kinds_object

KINDS = ["pod_monitoring", "compute_class", "rules"]
WANTED = {
    "cloud.google.com/v1": ["ComputeClass"],
    "monitoring.googleapis.com/v1": ["PodMonitoring", "Rules"],
}


def test_the_deployment_asks_for_each_kind_by_its_api_version(recorder):
    assert recorder.run(lambda: ClusterKinds("kinds", {"kinds": KINDS}).namespace) == NAME
    assert recorder.one("kubernetes:core/v1:Namespace").inputs["metadata"]["name"] == NAME
    made = recorder.one("kubernetes:apps/v1:Deployment").inputs
    (container,) = made["spec"]["template"]["spec"]["containers"]
    variables = {each["name"]: each.get("value") for each in container["env"]}
    assert json.loads(variables["KINDS"]) == WANTED
    assert container["readinessProbe"]["httpGet"] == {"path": "/ready", "port": PORT}
    assert int(variables["PORT"]) == PORT
    account = recorder.one("kubernetes:core/v1:ServiceAccount").inputs["metadata"]
    assert (account["name"], account["namespace"]) == (NAME, NAME)
    assert made["spec"]["template"]["spec"]["serviceAccountName"] == NAME
    assert "pulumi.com/skipAwait" not in made["metadata"].get("annotations", {})


def test_its_program_is_python_without_packages():
    (container,) = kinds_object(KINDS)["spec"]["template"]["spec"]["containers"]
    compile(container["command"][2], "program", "exec")
    assert container["command"][:2] == ["python3", "-c"]


@pytest.mark.parametrize(
    ("served", "missing"),
    [
        ({}, ["cloud.google.com/v1 ComputeClass", "monitoring.googleapis.com/v1 PodMonitoring",
              "monitoring.googleapis.com/v1 Rules"]),
        ({"cloud.google.com/v1": {"ComputeClass"}, "monitoring.googleapis.com/v1": {"Rules"}},
         ["monitoring.googleapis.com/v1 PodMonitoring"]),
        ({version: {*kinds} for version, kinds in WANTED.items()}, []),
    ],
)  # fmt: skip
def test_a_kind_is_missing_until_its_api_version_has_it(served, missing):
    assert kinds_program.missing(WANTED, lambda version: served.get(version, set())) == missing


def test_it_is_ready_once_every_kind_is_served():
    done = threading.Event()
    server = kinds_program.serve("127.0.0.1", 0, done)
    url = f"http://127.0.0.1:{server.server_port}/ready"
    try:
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(url, timeout=5)
        done.set()
        with urllib.request.urlopen(url, timeout=5) as answer:
            assert answer.status == 200
    finally:
        server.shutdown()
        server.server_close()
