"""Sets of jobs on slices of several hosts: the real Kueue and JobSet, GKE's autoscaler."""

import re
from typing import Any

import pytest
import yaml

from gke_inference.base.job_sets import INDEX_LABEL, NAME_LABEL
from gke_inference.base.manifests import labels_for
from gke_inference.serving.offline.batch_set import set_spec
from twin.cluster.base.context import ClusterContext
from twin.host.paths import REPOSITORY
from twin.tests.eventually import eventually
from twin.tests.running.queues.slices import HOSTS, PODS, QUEUE, SETS, SPACE, queue_of_slices
from twin.wire.kube import Kube
from twin.world.capacity import World

pytestmark = pytest.mark.needs_tools
DELAY = "pod-complete.stage.kwok.x-k8s.io/delay"
POOL = "cloud.google.com/gke-nodepool"


@pytest.fixture(scope="module")
def queue(kube: Kube) -> Kube:
    """The cluster with a queue of one slice."""
    queue_of_slices(kube)
    return kube


@pytest.fixture(autouse=True)
def clean(queue: Kube, context: ClusterContext) -> Any:
    """Leave no set and all chips."""
    World().save(context.paths.capacity_file)
    yield
    for found in queue.list(SETS):
        queue.delete(f"{SETS}/{found['metadata']['name']}", {"propagationPolicy": "Background"})
    eventually(lambda: not queue.list(SETS) and not queue.list(PODS), 60)


def pod_template(delay: str, component: str = "batch-engine") -> dict[str, Any]:
    """Return a pod with the chips of a host that ends after a time."""
    container = {
        "env": [],
        "image": "python:3.12",
        "name": "work",
        "resources": {
            "limits": {"google.com/tpu": "4"},
            "requests": {"cpu": "1", "google.com/tpu": "4"},
        },
    }
    pod = {"containers": [container], "restartPolicy": "Never"}
    labels = labels_for("batch-big", component)
    return {"metadata": {"annotations": {DELAY: delay}, "labels": labels}, "spec": pod}


def submit(
    kube: Kube, name: str, *, lasts: str, hosts: int = HOSTS, component: str = "batch-engine"
) -> None:
    """Submit a set with a pod on each of several hosts, whose leader ends by itself."""

    spec = set_spec(
        pod_template(lasts, component),
        pod_template("1h", component),
        container="work",
        hosts=hosts,
        namespace=SPACE,
        restarts=1,
    )
    labels = {"kueue.x-k8s.io/queue-name": QUEUE}
    body = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"labels": labels, "name": name},
        "spec": spec,
    }
    kube.post(SETS, body)


def running(kube: Kube, name: str) -> list[dict[str, Any]]:
    """Return the pods of a set that have a node, in the order of their jobs."""
    pods = kube.list(PODS, label_selector=f"{NAME_LABEL}={name}")
    found = [
        pod
        for pod in pods
        if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
    ]
    return sorted(found, key=lambda pod: pod["metadata"]["labels"][INDEX_LABEL])


def all_of(kube: Kube, name: str, hosts: int = HOSTS) -> list[dict[str, Any]] | None:
    """Return the pods of a set if all of them have a node."""
    found = running(kube, name)
    return found if len(found) == hosts else None


def state(kube: Kube, name: str) -> dict[str, Any]:
    return kube.get(f"{SETS}/{name}").get("status", {})


def pools_of(kube: Kube, pods: list[dict[str, Any]]) -> set[str]:
    nodes = {pod["spec"]["nodeName"] for pod in pods}
    assert len(nodes) == len(pods)
    return {kube.get(f"/api/v1/nodes/{node}")["metadata"]["labels"][POOL] for node in nodes}


def test_a_set_has_a_slice_to_itself_and_ends_with_its_leader(queue: Kube):
    submit(queue, "first", lasts="20s")
    pods = eventually(lambda: all_of(queue, "first"), 120)
    assert len(pools_of(queue, pods)) == 1
    assert [pod["spec"]["hostname"] for pod in pods] == [
        "first-leader-0-0",
        "first-workers-0-0",
        "first-workers-1-0",
        "first-workers-2-0",
    ]
    # there is one slice: the next set gets nothing of it, until the first has ended
    submit(queue, "second", lasts="1s")
    assert queue.get(f"{SETS}/second")["spec"]["suspend"] is True
    eventually(lambda: state(queue, "first").get("terminalState") == "Completed", 60)
    eventually(lambda: not running(queue, "first"), 30)
    eventually(lambda: state(queue, "second").get("terminalState") == "Completed", 120)


def test_sets_of_different_models_share_no_slice(queue: Kube):
    for name, component in (("small", "one"), ("other", "two")):
        submit(queue, name, lasts="1h", hosts=2, component=component)
    pools = [
        pools_of(queue, eventually(lambda name=name: all_of(queue, name, 2), 120))
        for name in ("small", "other")
    ]
    assert [len(each) for each in pools] == [1, 1]
    assert pools[0] != pools[1]


@pytest.mark.soak  # the first test has such a set
def test_the_set_in_the_documentation_runs_on_one_slice(queue: Kube):
    text = (REPOSITORY / "docs" / "jobs-with-several-pods.md").read_text()
    (example,) = [
        each for each in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if "JobSet" in each
    ]
    body = yaml.safe_load(example)
    job = body["spec"]["replicatedJobs"][0]["template"]["spec"]
    job["template"] = pod_template("1h")
    body["metadata"]["namespace"] = SPACE
    queue.post(SETS, body)
    pods = eventually(lambda: all_of(queue, "nightly"), 120)
    assert len(pools_of(queue, pods)) == 1


def test_a_set_that_loses_its_slice_starts_again_as_a_whole(queue: Kube, context: ClusterContext):
    submit(queue, "moved", lasts="1h")
    before = eventually(lambda: all_of(queue, "moved"), 120)
    none = {"stock": [{"zone": "*", "accelerator": "tpu-v6e", "chips": 0}]}
    World.model_validate(none).save(context.paths.capacity_file)
    eventually(lambda: not running(queue, "moved"), 60)
    World().save(context.paths.capacity_file)
    after = eventually(lambda: all_of(queue, "moved"), 120)
    assert not {each["metadata"]["uid"] for each in before} & {
        each["metadata"]["uid"] for each in after
    }
    found = state(queue, "moved")
    assert found["restarts"] >= 1
    assert found.get("restartsCountTowardsMax", 0) == 0
