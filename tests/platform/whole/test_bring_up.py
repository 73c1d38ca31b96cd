"""The platform from the first `up` to a burst, as a user goes through it; the order matters."""

import http.client
import json
import os
import re
import signal
import socket
import ssl
import stat
import subprocess
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import openai
import pytest
import testinfra

from scripts.operate.load import trace_of
from scripts.shared.engine import Engine
from scripts.shared.model_client import models, stream_chat
from tests.platform.tutorial.console import commands, numbered, unlike
from twin.cluster.services import connections
from twin.host import loopback_only, processes
from twin.host.listening import is_of_twin, of_twin
from twin.host.paths import REPOSITORY
from twin.toolchain import tool
from twin.wire.kube import Kube, KubeError
from twin.world.scenario import find, load

pytestmark = pytest.mark.needs_tools

TUTORIAL = REPOSITORY / "docs" / "tutorial"
_LARGEST = 8 << 20
HAS_NAMESPACES = (
    subprocess.run(["unshare", "--user", "--mount", "true"], check=False).returncode == 0
)
"""Whether this machine lets programs into pods."""
DEPLOYMENT = "/apis/apps/v1/namespaces/models/deployments/llama-3-1-8b-gpu"


def endpoint(platform) -> str:
    return platform.engine.outputs("local")["endpoint"]


@pytest.mark.soak  # twin/tests/running/gcp has an engine that is killed, with a small program
def test_an_up_that_is_killed_in_the_middle_is_finished_by_the_next_one(platform):
    assert platform.kill_when(lambda: 6 <= platform.resources() <= 30, "up", "--stack", "local")
    answer = platform.cli("up", "--stack", "local")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "Traceback" not in answer.stdout + answer.stderr


def test_up_says_what_runs_where_on_which_rung_at_what_price(deployed):
    answer = deployed.cli("status", "--stack", "local")
    assert answer.returncode == 0, answer.stderr
    line = next(row for row in answer.stdout.splitlines() if "llama-3-1-8b-tpu" in row)
    assert "ready" in line
    assert "tpu-v6e 2x2 reservation" in line
    assert float(line.split()[-1]) > 1


def test_up_prints_what_the_tutorial_shows(deployed):
    (command,) = commands(numbered(TUTORIAL)[1])
    folder = f"{deployed.paths.root.parent.name}/local"
    shown = deployed.shown.replace(folder, "build/local")
    assert unlike(command.shown, shown) == "", shown
    # a slow machine says more often how far it is, and has two lines of a component that paused
    lines = [line for line in shown.splitlines() if "resources changed, " not in line]
    once = {
        line.partition(": ")[0] if line.startswith("  ") else at: 1 for at, line in enumerate(lines)
    }
    assert len(once) <= 40


def test_the_gateways_address_is_written_to_a_file(platform):
    file = platform.paths.root.parent / "local" / "endpoint"
    assert file.read_text().strip() == endpoint(platform)
    assert endpoint(platform).startswith("http://127.")


def credentials(platform) -> re.Pattern[bytes]:
    """Return what a private key, a token of a service account or of the control plane is like."""
    given = {(platform.paths.pki / "token").read_text()}
    for file in platform.paths.root.glob("clusters/*/pki/tokens.csv"):
        given |= {line.split(",")[0] for line in file.read_text().splitlines()}
    known = [re.escape(each.encode()) for each in sorted(given)]
    assert len(known) >= 3
    return re.compile(b"|".join([rb"PRIVATE KEY-----", rb"eyJ[\w-]{9,}\.eyJ[\w-]{9,}\.", *known]))


def test_no_credential_of_the_twin_can_be_read_by_other_users(platform):
    root, wanted = platform.paths.root, credentials(platform)
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    found: dict[str, str] = {}
    for file in root.rglob("*"):
        with suppress(FileNotFoundError):  # the twin runs
            is_read = file.is_file() and not file.is_symlink() and file.stat().st_size < _LARGEST
            if is_read and wanted.search(file.read_bytes()):
                found[str(file.relative_to(root))] = oct(stat.S_IMODE(file.stat().st_mode))
    assert {"pki/ca.key", "pki/exec-credential.json", "pki/token"} <= found.keys()
    assert any(name.endswith("serviceaccount/token") for name in found)
    assert {name: mode for name, mode in found.items() if int(mode, 8) & 0o077} == {}


def test_no_credential_is_in_the_arguments_or_the_environment_of_a_program(platform):
    wanted, found, count = credentials(platform), [], 0
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if not is_of_twin(int(folder.name), platform.paths):
                continue
            arguments = (folder / "cmdline").read_bytes()
            count += 1
            if wanted.search(arguments + (folder / "environ").read_bytes()):
                found.append(arguments.split(b"\0")[0].decode())
    assert count > 10
    assert found == []


def test_no_program_of_the_twin_listens_beyond_loopback(platform):
    found = of_twin(platform.paths)
    assert {"envoy", "epp", "etcd", "kube-apiserver"} <= {each.program for each in found}
    open_to_others = {each.program for each in found if not each.is_on_loopback}
    assert open_to_others == ({"epp"} if loopback_only.problem() else set())


def test_network_policies_decide_which_pods_reach_an_engine(platform):
    (folder,) = (file.parent for file in platform.paths.root.glob("clusters/*/kubeconfig"))
    pods = Kube(folder / "kubeconfig").list("/api/v1/namespaces/models/pods")
    named = {each["metadata"]["labels"]["app.kubernetes.io/component"]: each for each in pods}
    engine = named["model-server"]
    host, _, port = connections.address_in(folder).partition(":")

    def decided(component: str) -> str:
        name, address = named[component]["metadata"]["name"], engine["status"]["podIP"]
        with socket.create_connection((host, int(port)), 10) as asked:
            asked.sendall(f"models {name} {address} 8000\n".encode())
            return asked.makefile().readline().strip()

    assert decided("endpoint-picker") == "ok"
    assert decided("model-catalogue") == (
        f"models/{named['model-catalogue']['metadata']['name']} to port 8000 of "
        f"models/{engine['metadata']['name']}: no NetworkPolicy of the receiver's namespace "
        "lets it in"
    )
    (container,) = named["endpoint-picker"]["status"]["containerStatuses"]
    picker = int(container["containerID"].removeprefix("twin://"))
    if not loopback_only.problem():  # the kernel asks before the picker connects
        assert "\nSeccomp:\t2\n" in Path(f"/proc/{picker}/status").read_text()


def test_etcd_serves_the_api_server_alone(platform):
    (folder,) = (file.parent for file in platform.paths.root.glob("clusters/*/ports.json"))
    port = json.loads((folder / "ports.json").read_text())["etcd"]

    def ask(certificate: Path | None, method: str, path: str) -> tuple[int, str | None]:
        context = ssl.create_default_context(cafile=str(folder / "pki" / "etcd-ca.crt"))
        if certificate is not None:
            context.load_cert_chain(certificate, certificate.with_suffix(".key"))
        connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=10)
        with closing(connection):
            headers = {"Origin": "https://evil.example"}
            connection.request(method, path, b'{"key": "AA=="}', headers)
            answer = connection.getresponse()
            return answer.status, answer.getheader("Access-Control-Allow-Origin")

    own = folder / "pki" / "apiserver-etcd-client.crt"
    assert ask(own, "GET", "/health") == (200, None)
    assert ask(own, "POST", "/v3/kv/range") == (404, None)
    for stranger in (None, platform.paths.pki / "local.crt"):
        with pytest.raises(ssl.SSLError):
            ask(stranger, "GET", "/health")


def test_envoys_admin_page_changes_nothing(platform):
    (file,) = platform.paths.root.glob("clusters/*/gateways/*/admin.address")
    connection = http.client.HTTPConnection(file.read_text().strip(), timeout=10)
    with closing(connection):
        connection.request("POST", "/quitquitquit")
        assert connection.getresponse().status == 403


def test_an_engines_pod_has_the_user_files_and_settings_of_its_specification(platform, monkeypatch):
    if not HAS_NAMESPACES:
        pytest.skip("this machine refuses user namespaces, which kubectl exec needs")
    (kubeconfig,) = platform.paths.root.glob("clusters/*/kubeconfig")
    pods = Kube(kubeconfig).list("/api/v1/namespaces/models/pods")
    engine = next(pod for pod in pods if "-tpu" in pod["metadata"]["name"])
    container = engine["spec"]["containers"][0]
    monkeypatch.setenv("PATH", str(tool("kubectl").parent), prepend=os.pathsep)
    place = f"namespace=models&container={container['name']}&kubeconfig={kubeconfig}"
    inside: Any = testinfra.get_host(f"kubectl://{engine['metadata']['name']}?{place}")
    assert inside.user().uid == 0  # libtpu opens /dev/vfio as root
    assert all(inside.file(mount["mountPath"]).is_directory for mount in container["volumeMounts"])
    bucket = next(
        mount["mountPath"] for mount in container["volumeMounts"] if mount.get("readOnly")
    )
    assert "ro" in inside.mount_point(bucket).options
    assert json.loads(inside.file("/opt/gke-inference/engine/spec.json").content_string)
    cache = {each["name"]: each.get("value") for each in container["env"]}["VLLM_XLA_CACHE_PATH"]
    assert inside.environment()["VLLM_XLA_CACHE_PATH"] == cache
    assert inside.environment()["POD_IP"] == engine["status"]["podIP"]


def test_the_gateway_lists_every_model_and_adapter_of_the_stack(platform):
    assert set(models(endpoint(platform))) == {"llama-3.1-8b", "sql", "support"}


def test_the_openai_client_streams_an_answer_with_usage(platform):
    client = openai.OpenAI(base_url=f"{endpoint(platform)}/v1", api_key="none", max_retries=0)
    stream = client.chat.completions.create(
        model="llama-3.1-8b",
        messages=[{"role": "user", "content": "Hello"}],
        max_tokens=8,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text.strip()
    usage = chunks[-1].usage
    assert usage is not None
    assert usage.completion_tokens == 8


def test_an_adapter_answers_under_its_own_name(platform):
    assert stream_chat(endpoint(platform), "sql", "select").text


def names_of_headers(platform, method: str, path: str, **body: Any) -> tuple[int, set[str]]:
    """Return the status of a response and the names of its headers."""
    connection = http.client.HTTPConnection(endpoint(platform).removeprefix("http://"), timeout=30)
    asked = {"Content-Type": "application/json", "endpoint-load-metrics-format": "TEXT"}
    with closing(connection):
        connection.request(method, path, json.dumps(body) if body else None, asked)
        answer = connection.getresponse()
        answer.read()
        return answer.status, {name.lower() for name, _ in answer.getheaders()}


def test_a_client_sees_no_header_of_software_or_of_a_replicas_load(platform):
    ours = {"content-type", "date", "via"}
    pod = "x-gke-inference-pod"  # which only the simulation sends
    prompt = {"model": "llama-3.1-8b", "messages": [{"role": "user", "content": "Hello"}]}
    asked = partial(names_of_headers, platform)
    assert asked("GET", "/v1/models") == (200, {*ours, "content-length"})
    chat = partial(asked, "POST", "/v1/chat/completions", max_tokens=4)
    pickers = "x-went-into-resp-headers"  # added after the filter of the route
    streamed = {*ours, pod, pickers, "transfer-encoding"}
    assert chat(**prompt) == (200, streamed)
    assert chat(**prompt, stream=True) == (200, streamed)
    assert chat(**prompt, n=-1) == (400, {*ours, pickers, "transfer-encoding"})
    assert chat(**{**prompt, "model": "gpt-9"}) == (404, {*ours, "content-length"})


def test_an_unknown_model_is_an_openai_error(platform):
    client = openai.OpenAI(base_url=f"{endpoint(platform)}/v1", api_key="none", max_retries=0)
    with pytest.raises(openai.NotFoundError) as refused:
        client.chat.completions.create(model="gpt-9", messages=[{"role": "user", "content": "x"}])
    assert "gpt-9" in refused.value.message


@pytest.mark.parametrize(("namespace", "chips"), [("default", 1), ("models", 256)])
def test_a_stray_pod_cannot_request_chips(platform, namespace: str, chips: int):
    (kubeconfig,) = platform.paths.root.glob("clusters/*/kubeconfig")
    limits = {"google.com/tpu": str(chips)}
    container = {"name": "stray", "image": "busybox:1.37.0", "resources": {"limits": limits}}
    pod = {
        "metadata": {"name": "stray", "namespace": namespace},
        "spec": {"containers": [container]},
    }
    with pytest.raises(KubeError, match="exceeded quota: accelerators, requested: "):
        Kube(kubeconfig).post(f"/api/v1/namespaces/{namespace}/pods", pod)


def accepted(platform) -> dict[str, str]:
    """Run an acceptance and return the verdict of each subject: the worst one that was checked."""
    options = ["--by", "Ada", "--failover", "--yes"]
    if HAS_NAMESPACES:
        options.append("--inside")
    answer = platform.cli("accept", "--stack", "local", *options)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    folder = platform.paths.root.parent / "local"
    report = json.loads((folder / "acceptance.json").read_text())
    assert (folder / "acceptance.md").read_text().startswith("# Accepted: local\n")
    found: dict[str, set[str]] = {}
    for row in (row for group in report["groups"].values() for row in group):
        found.setdefault(row["subject"], set()).add(row["verdict"])
    order = ["not met", "met", "not checked"]
    return {subject: min(seen, key=order.index) for subject, seen in found.items()}


def test_the_platform_is_accepted_also_while_it_loses_a_replica(platform):
    without = {"alert delivery", "certificate", "cold start"}  # none here, and a faster clock
    if not HAS_NAMESPACES:
        without.add("pod")
    found = accepted(platform)
    assert {name for name, verdict in found.items() if verdict == "not checked"} == without
    assert set(found.values()) == {"met", "not checked"}


def test_a_second_up_changes_nothing(platform):
    answer = platform.pulumi("up", "--yes", "--skip-preview", "--expect-no-changes", "-s", "local")
    assert answer.returncode == 0, answer.stdout


def test_a_refresh_finds_no_drift(platform):
    answer = platform.pulumi(
        "refresh", "--yes", "--skip-preview", "--expect-no-changes", "-s", "local"
    )
    assert answer.returncode == 0, answer.stdout


def change_by_hand(platform) -> list[str]:
    """Delete a Deployment and change a ConfigMap, as somebody with kubectl; return their names."""
    (kubeconfig,) = platform.paths.root.glob("clusters/*/kubeconfig")
    kube = Kube(kubeconfig)
    kube.delete(DEPLOYMENT)
    settings = next(
        each["id"]
        for each in platform.engine.resources_of("local")
        if each["type"].endswith(":ConfigMap") and each["id"].startswith("models/")
    )
    path = f"/api/v1/namespaces/models/configmaps/{settings.removeprefix('models/')}"
    data = {key: f"{text}\n" for key, text in kube.get(path)["data"].items()}
    kube.patch(path, {"data": data})
    return ["Deployment models/llama-3-1-8b-gpu", f"ConfigMap {settings}"]


# tests/unit/backend has drift and its repair, twin/tests/running/gcp an `up` after a kill
@pytest.mark.soak
def test_a_twin_that_was_killed_and_changed_by_hand_is_repaired_by_up(platform):
    changed = change_by_hand(platform)
    found = json.loads(platform.cli("status", "--stack", "local", "-o", "json").stdout)["drift"]
    assert sorted(each["object"] for each in found) == sorted(changed)
    killed = processes.running(platform.paths)
    assert len(killed) > 6
    for pid in killed.values():
        os.kill(pid, signal.SIGKILL)
    answer = platform.cli("up", "--stack", "local")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    for name in changed:
        assert f"Repairing {name} in cluster acme-local-us-central1 " in answer.stdout
    found = json.loads(platform.cli("status", "--stack", "local", "-o", "json").stdout)
    assert found["drift"] == []
    assert "llama-3-1-8b-gpu" in answer.stdout
    platform.engine = Engine(platform.paths)
    platform.environment.update(platform.engine.environment)
    assert stream_chat(endpoint(platform), "llama-3.1-8b", "Still there?").text


def test_a_tpu_stock_out_is_survived_and_work_moves_back(platform):
    answer = platform.cli("up", "--stack", "local", "--scenario", "tpu-stockout", timeout=900)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    (command,) = commands(numbered(TUTORIAL)[3])
    assert command.line == "make up SCENARIO=tpu-stockout"
    assert unlike(command.shown, answer.stdout) == "", answer.stdout
    drawn = (platform.paths.root.parent / "local" / "timeline.svg").read_text()
    assert "<svg" in drawn


def played(platform, scenario: str) -> str:
    """Play a burst and return what was printed; every request was answered, and replicas went."""
    answer = platform.cli("up", "--stack", "local", "--scenario", scenario, timeout=1500)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    folder = platform.paths.root.parent / "local"
    counted = json.loads((folder / "traffic.json").read_text())
    traffic = load(find(scenario)).traffic
    assert traffic is not None
    sent = len(trace_of(traffic, "llama-3.1-8b").asks)
    whole = [counted[word] for word in ("sent", "answered", "refused", "lost")]
    assert whole == [sent, sent, 0, 0]
    seconds = sum(stage.seconds for stage in traffic.stages)
    assert f"of {seconds:.0f} s: " in answer.stdout  # who waits is told how far it is
    who = "".join(line for line in answer.stdout.splitlines() if " by llama-3-1-8b-" in line)
    assert who.count("llama-3-1-8b-tpu-") == 2
    assert "in the batch" in (folder / "load.svg").read_text()
    left = platform.cli("status", "--stack", "local").stdout
    assert left.count(" ready ") == 1, left
    assert "llama-3-1-8b-gpu" not in left
    return answer.stdout


def test_a_burst_scales_out_and_in_again_and_loses_nothing(platform, tmp_path):
    text = find("burst").read_text()
    for long, short in (("seconds: 10}", "seconds: 5}"), ("90}", "40}"), ("50}", "20}")):
        assert long in text
        text = text.replace(long, short)
    scenario = tmp_path / "short-burst.yaml"
    scenario.write_text(text)
    played(platform, str(scenario))


@pytest.mark.soak
def test_a_long_burst_scales_out_to_the_next_rung_too(platform, record_property):
    shown = played(platform, "burst")
    # the picker sends the small replica little, and by chance nothing: that it stood ready counts
    assert " ready on nvidia-l4 " in shown
    folder = platform.paths.root.parent / "local"
    assert "llama-3-1-8b-gpu ready" in (folder / "load.svg").read_text()
    counted = json.loads((folder / "traffic.json").read_text())
    for word in ("sent", "answered", "refused", "lost"):
        record_property(word, counted[word])
    assert platform.cli("down").returncode == 0  # what runs on would slow the tests that follow
