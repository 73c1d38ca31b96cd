"""Two teams on one platform (docs/layers.md), one of them delivered from git (docs/gitops.md)."""

import json
import shutil
import subprocess
import threading
import time
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from scripts.shared.clusters import close, of_twin
from scripts.shared.model_client import models, stream_chat
from tests.platform import example_checkout
from twin import daemon
from twin.host import processes
from twin.host.paths import REPOSITORY, TwinPaths
from twin.wire.kube import KubeError

pytestmark = pytest.mark.needs_tools

MODEL, TEAM = "llama-3.1-8b", "search"
OTHER_MODEL, OTHER_TEAM = "qwen3-8b", "ads"
OTHER = REPOSITORY / "docs" / "examples" / "teams" / f"Pulumi.{OTHER_TEAM}.yaml"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{TEAM}/deployments"
SCALER = f"/apis/autoscaling/v2/namespaces/{TEAM}/horizontalpodautoscalers/llama-3-1-8b-gpu"
ROUTE = f"/apis/gateway.networking.k8s.io/v1/namespaces/{TEAM}/httproutes/llama-3-1-8b"
ADD_OTHER = ("    teams:\n", "    teams:\n      ads: {chips: {gpu: 2}}\n")
CANARY = """replicas: {min: 1, max: 2}
        canary:
          version: v2
          weights: llama-3.1-8b-v2
          replicas: {min: 1, max: 1}
"""
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
REMOTE = "https://git.example.com/acme/serving.git"


@pytest.fixture
def paths(tmp_path):
    paths = TwinPaths(tmp_path / "twin")
    yield paths
    daemon.shut_down(paths)
    assert processes.running(paths) == {}


def git(folder: Path, *arguments: str) -> str:
    argv = ["git", "-c", "user.name=test", "-c", "user.email=test@example.com", *arguments]
    done = subprocess.run(argv, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(folder: Path) -> str:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Change the models")
    return git(folder, "rev-parse", "HEAD")


def edit(file: Path, *pairs: tuple[str, str]) -> None:
    text = file.read_text()
    for before, after in pairs:
        assert before in text, before
        text = text.replace(before, after)
    file.write_text(text)


def until(reached, what: str, seconds: float = 60.0):
    end = time.monotonic() + seconds
    while not (value := reached()):
        assert time.monotonic() < end, f"not in {seconds:.0f} s: {what}"
        time.sleep(0.5)
    return value


class Teams:
    """The example's stacks, and the repository of the team that is delivered from git."""

    def __init__(self, paths: TwinPaths, folder: Path) -> None:
        self.paths = paths
        self.folder = example_checkout.checkout(folder / "checkout", "gitops")
        self.shared = self.folder / "stacks" / "Pulumi.shared.yaml"
        self.stack = self.folder / "stacks" / "Pulumi.search.yaml"
        self.serving = folder / "serving"
        self.serving.mkdir()
        git(self.serving, "init", "--quiet", "--initial-branch=main")
        git(self.serving, "config", "user.name", "test")
        git(self.serving, "config", "user.email", "test@example.com")
        edit(self.stack, (REMOTE, f"file://{self.serving}"))

    def run(self, *arguments: str) -> tuple[int, str]:
        answer = example_checkout.run(self.folder, self.paths, *arguments)
        return answer.returncode, answer.stdout

    def render(self) -> str:
        """Write the team's objects into its repository; return the commit."""
        status, said = self.run("render", "--stack", TEAM, "--git", str(self.serving))
        assert status == 0, said
        return commit(self.serving)

    def delivered(self, revision: str = "", wait: int = 180) -> tuple[int, dict]:
        options = ("--stack", TEAM, "--wait", str(wait), "--revision", revision, "-o", "json")
        command = ("delivery", "status", *options)
        answer = example_checkout.run(self.folder, self.paths, *command, stderr=subprocess.PIPE)
        [cluster] = json.loads(answer.stdout)
        return answer.returncode, cluster

    def bring_up(self) -> str:
        """Bring up the platform and the team, and return the gateway's address."""
        status, said = self.run("up", "--stack", "shared")
        assert status == 0, said
        first = self.render()
        status, said = self.run("up", "--stack", TEAM)
        assert status == 0, said
        status, cluster = self.delivered(first)
        assert (status, cluster["state"], cluster["synced"]) == (0, "synced", first), cluster
        return "http://" + said.split("Gateway  http://")[1].split()[0]


@pytest.fixture
def teams(paths, tmp_path) -> Teams:
    return Teams(paths, tmp_path)


# twin/tests/running/cluster has the applier with bad commits and drift, tests/contract what a
# team's stack registers, tests/unit the roll-back of a tree and of a canary
@pytest.mark.soak
def test_teams_share_a_platform_and_a_bad_commit_of_one_leaves_what_runs(teams):
    paths, folder, serving, stack = teams.paths, teams.folder, teams.serving, teams.stack
    run, render, delivered = teams.run, teams.render, teams.delivered
    # a replica of a rollout counts as well, and a canary has replicas of its own
    edit(teams.shared, ("gpu: 2}", "gpu: 4}"), ADD_OTHER)
    shutil.copy(OTHER, folder / "stacks")
    edit(stack, ("replicas: {min: 1, max: 2}\n", CANARY))

    status, said = run("up", "--stack", OTHER_TEAM)
    assert (status, "must be a serving stack whose platform is up" in said) == (2, True), said
    endpoint = teams.bring_up()
    kinds = owned_by_pulumi(folder, paths)
    assert [kind for kind in kinds if kind.startswith("kubernetes:")] == [
        "kubernetes:configsync.gke.io/v1beta1:RepoSync"
    ], "no object of the models"
    assert stream_chat(endpoint, MODEL, "Hello", max_tokens=8, timeout=60).text

    # The other team applies its own, beside it.
    status, said = run("up", "--stack", OTHER_TEAM)
    assert status == 0, said
    assert models(f"{endpoint}/{TEAM}") == [MODEL]
    assert models(f"{endpoint}/{OTHER_TEAM}") == [OTHER_MODEL]
    assert stream_chat(endpoint, OTHER_MODEL, "Hello", max_tokens=8, timeout=60).text
    status, said = run("status", "--stack", OTHER_TEAM)
    assert (status, "qwen3-8b-gpu" in said, "llama-3-1-8b" in said) == (0, True, False), said
    # the quota of 2 has a replica on it already
    assert "exceeded quota: team" in refused(paths, OTHER_TEAM, 2)
    assert refused(paths, OTHER_TEAM, 1) == ""

    # A change of the model's settings is a commit.
    edit(stack, ("context: 8192", "context: 4096"), ("max: 2", "max: 3"))
    second = render()
    status, cluster = delivered(second)
    assert (status, cluster["synced"]) == (0, second), cluster
    [twin] = of_twin(paths)
    assert twin.kube.get(SCALER)["spec"]["maxReplicas"] == 3

    # What somebody else changes is changed back, and what the autoscaler decides stays.
    twin.kube.patch(SCALER, {"spec": {"maxReplicas": 9}})
    until(lambda: twin.kube.get(SCALER)["spec"]["maxReplicas"] == 3, "the drift undone")
    replicas = twin.kube.get(f"{DEPLOYMENTS}/llama-3-1-8b-gpu")["spec"]["replicas"]
    assert replicas >= 1

    # A bad revision is reported, and what ran goes on.
    [tree] = serving.glob("clusters/search/*")
    edit(
        tree / "horizontalpodautoscaler.autoscaling-llama-3-1-8b-gpu.yaml",
        ("maxReplicas: 3", "maxReplicas: -1"),
    )
    bad = commit(serving)

    def seen() -> dict | None:
        found = delivered(wait=0)
        return found[1] if found[1]["revision"] == bad and found[1]["errors"] else None

    cluster = until(seen, "the bad revision reported")
    assert (cluster["state"], cluster["synced"]) == ("errors", second)
    assert "maxReplicas" in " ".join(cluster["errors"])
    assert stream_chat(endpoint, MODEL, "Hello", max_tokens=8, timeout=60).text

    # Its health rolls it back: the tree is that of the last good commit again.
    status, said = run("delivery", "watch", "--stack", "search", "--git", str(serving))
    assert (status, f"every cluster serves {second[:12]} again" in said) == (1, True), said
    good = git(serving, "rev-parse", "HEAD")
    assert git(serving, "diff", second, good) == ""
    status, cluster = delivered(good)
    assert (status, cluster["synced"]) == (0, good), cluster

    lose_the_canary(twin, endpoint, run, serving)
    assert "percent: 0" in stack.read_text()
    assert "Set the canary of llama-3.1-8b to 0%" in git(serving, "log", "--format=%s", "-1")
    close([twin])

    status, said = run("down", "--stack", "shared")
    assert status == 1, said
    assert "take down ads, search first" in said.replace("\n", " ")
    status, said = run("down")
    assert status == 0, said
    assert "Nothing is left in the cloud." in said
    assert not paths.root.exists()


def lose_the_canary(twin, endpoint: str, run, serving: Path) -> None:
    """Scale a canary to nothing in the middle of its rollout, which rolls back."""

    def weights() -> list[int]:
        refs = twin.kube.get(ROUTE)["spec"]["rules"][0]["backendRefs"]
        return [each["weight"] for each in refs]

    until(lambda: is_answered(endpoint, {"x-model-version": "v2"}), "an answer of the canary")
    with Traffic(endpoint) as traffic, ThreadPoolExecutor(1) as pool:
        options = ("--steps", "50,100", "--hold", "10s", "--patience", "3m", "--requests", "20")
        command = ("canary", "run", "--stack", "search", "--model", MODEL, "--git", str(serving))
        running = pool.submit(run, *command, *options)
        until(lambda: running.done() or weights() == [50, 50], "half of the requests", 180)
        assert not running.done(), running.result()
        before = Counter(traffic.seen)
        twin.kube.patch(f"{DEPLOYMENTS}/llama-3-1-8b-v2-gpu/scale", {"spec": {"replicas": 0}})
        status, said = running.result(timeout=400)
        assert (status, "worse: errors; rolling back" in said) == (1, True), said
        assert before["failed"] == 0
        assert weights() == [100, 0]
        time.sleep(3)
        settled = traffic.seen["failed"]
        assert settled > 0
        answered = traffic.seen["answered"]
        until(lambda: traffic.seen["answered"] >= answered + 20, "answers after the rollback")
        assert traffic.seen["failed"] == settled


class Traffic:
    """Requests of four clients, one after the other, and how they ended."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._stop = threading.Event()
        self.seen: Counter[str] = Counter()
        self._threads = [threading.Thread(target=self._ask) for _ in range(4)]

    def _ask(self) -> None:
        while not self._stop.is_set():
            answered = is_answered(self._endpoint, {})
            self.seen["answered" if answered else "failed"] += 1
            self._stop.wait(0.5)  # together below 600 a minute, which the edge allows an address

    def __enter__(self) -> "Traffic":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


def is_answered(endpoint: str, headers: dict[str, str]) -> bool:
    """Return whether a request is answered."""
    body = json.dumps(
        {"model": MODEL, "max_tokens": 4, "messages": [{"role": "user", "content": "Hello"}]}
    )
    request = urllib.request.Request(  # noqa: S310 - always the gateway
        f"{endpoint}/v1/chat/completions",
        body.encode(),
        {"Content-Type": "application/json", **headers},
    )
    try:
        with OPENER.open(request, timeout=30) as answer:
            return answer.status == 200
    except OSError:
        return False


def owned_by_pulumi(folder: Path, paths: TwinPaths) -> list[str]:
    """Return the types of what Pulumi has of the team's stack."""
    [file] = (paths.root / "pulumi-state" / ".pulumi" / "stacks").glob("*/search.json")
    found = json.loads(file.read_text())["checkpoint"]["latest"]["resources"]
    return sorted({each["type"] for each in found})


def refused(paths: TwinPaths, namespace: str, gpus: int) -> str:
    """Return why a cluster refuses a pod with some GPUs."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "too-many", "namespace": namespace},
        "spec": {
            "containers": [
                {
                    "image": "registry.k8s.io/pause",
                    "name": "pause",
                    "resources": {"limits": {"nvidia.com/gpu": str(gpus)}},
                }
            ]
        },
    }
    [cluster] = of_twin(paths)
    try:
        cluster.kube.post(f"/api/v1/namespaces/{namespace}/pods", pod, dryRun="All")
    except KubeError as error:
        return error.message
    finally:
        close([cluster])
    return ""
