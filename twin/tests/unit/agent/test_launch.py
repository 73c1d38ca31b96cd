"""Translation of containers into processes: arguments, environment, hardware, ports."""

import json
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from twin.cluster.agent.launch import missing_of, plan, split_flags
from twin.cluster.agent.launching import launcher
from twin.cluster.agent.launching.engines import arguments
from twin.cluster.agent.launching.environment import ConfigError, expand, field
from twin.cluster.agent.launching.hardware import NodeHardware, made_for, of_node
from twin.cluster.agent.launching.place import Place
from twin.cluster.agent.launching.volumes import Mount, rewrite
from twin.host import loopback_only
from twin.providers.gcp.effects import secret_manager
from twin.world.rules import Rules

POD = {
    "metadata": {"name": "p", "namespace": "n", "labels": {"a.b/c": "x"}},
    "spec": {"nodeName": "node-1"},
    "status": {"podIP": "127.64.0.9", "hostIP": "127.0.0.1"},
}
GPU = {"name": "vllm", "image": "vllm/vllm-openai:1", "args": ["m-8b"]}
API_SERVER = ["python3", "-m", "vllm.entrypoints.openai.api_server"]


def place(node: NodeHardware, mounts: list[Mount] | None = None) -> Place:
    return Place(
        POD, node, mounts or [], {"X": "1"}, Path("/k"), Rules(), lambda name: Path("/bin") / name
    )


L4 = NodeHardware("gpu", "nvidia-l4", 1)
V6E = NodeHardware("tpu", "tpu-v6e-slice", 4)


@pytest.mark.parametrize(
    ("command", "args"),
    [
        ([], ["m-8b", "--port=8000"]),
        ([], ["serve", "m-8b", "--port=8000"]),
        (["vllm", "serve"], ["m-8b", "--port=8000"]),
        (API_SERVER, ["m-8b", "--port=8000"]),
        (["/bin/sh", "-c", 'exec vllm serve "$@"', "engine"], ["m-8b", "--port=8000"]),
        (["bash", "-lc"], ["set -e; exec vllm serve ${MODEL} \\\n --port=$PORT"]),
        (
            ["/bin/sh", "-c", f'if x; then exec {shlex.join(API_SERVER)} "$@"; fi', "engine"],
            ["$(MODEL)", "--port=8000"],
        ),
    ],
)
def test_the_engines_own_arguments_are_found(command: list[str], args: list[str]):
    container = {**GPU, "command": command, "args": args}
    assert arguments(container, {"MODEL": "m-8b", "PORT": "8000"}) == [
        "m-8b",
        "--port=8000",
    ]


STOCK = "docker.io/vllm/vllm-openai:v0.32.0"


def test_a_command_whose_program_the_image_lacks_cannot_start():
    found = plan({"name": "vllm", "image": STOCK, "command": ["ray", "start"]}, place(L4))
    assert found.argv == []
    assert found.cannot_start == 'exec: "ray": executable file not found in $PATH: unknown'


def test_an_engine_that_the_image_lacks_cannot_start_behind_the_launcher():
    command = ["python3", "-m", "engine", "--hardware=gpu", "--", "sglang", "serve"]
    found = plan({"name": "vllm", "image": STOCK, "command": command}, place(L4))
    assert found.cannot_start == 'exec: "sglang": executable file not found in $PATH: unknown'


def test_a_shell_whose_program_the_image_lacks_ends_with_127():
    script = "set -eu\nray start --head\nexec python3 -m engine -- vllm serve"
    found = plan({"name": "vllm", "image": STOCK, "command": ["bash", "-c", script]}, place(L4))
    ended = subprocess.run(
        found.argv, env=found.environment, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (127, "bash: ray: command not found\n")


def test_our_own_image_of_vllm_has_ray_and_a_volume_can_have_programs():
    own = "us-docker.pkg.dev/acme/engines/vllm-gpu@sha256:0"
    ray = {"name": "ray", "image": own, "command": ["ray", "health-check"]}
    assert missing_of(ray) is None
    mounted = {**ray, "image": STOCK, "command": ["/tools/ray"]}
    assert missing_of(mounted) is not None
    assert missing_of({**mounted, "volumeMounts": [{"mountPath": "/tools"}]}) is None
    assert missing_of({**ray, "image": "example.com/another:1"}) is None


@pytest.mark.parametrize("command", [["sleep", "1"], ["sh", "-c", "sleep 1"]])
def test_a_command_that_starts_no_engine_is_refused(command: list[str]):
    with pytest.raises(ConfigError, match="no vLLM server"):
        arguments({**GPU, "command": command}, {})


@pytest.mark.parametrize(
    ("image", "command", "argv"),
    [
        ("lmsysorg/sglang:1", ["python3", "-m", "sglang.launch_server"], ["--port=8000"]),
        ("lmsysorg/sglang:1", ["sh", "-c", "exec sglang serve --port=8000"], ["--port=8000"]),
        ("huggingface/text-generation-inference:1", [], ["--port=8000"]),
        (
            "nvidia/tritonserver:1",
            ["python3", "/opt/tritonserver/python/openai/openai_frontend/main.py"],
            ["--openai-port=8000"],
        ),
        ("nvidia/tritonserver:2-py3", ["tritonserver"], ["--http-port=8000"]),
    ],
)
def test_the_image_says_which_server_it_is(image: str, command: list[str], argv: list[str]):
    args = [] if command[:1] == ["sh"] else argv
    container = {"name": "engine", "image": image, "command": command, "args": args}
    launch = plan(container, place(L4))
    words = {"sglang": "sglang", "generation": "tgi", "triton": "triton"}
    word = next(word for part, word in words.items() if part in image)
    word = "tritonserver" if "-py3" in image else word
    assert launch.argv == [sys.executable, "-m", "simulator.dialects", word, *argv]


def test_a_command_of_another_server_than_its_images_is_refused():
    container = {"name": "engine", "image": "lmsysorg/sglang:1", "command": ["sleep", "9"]}
    with pytest.raises(ConfigError, match="no SGLang server in the command: sleep 9"):
        plan(container, place(L4))


def test_an_engine_is_told_its_hardware_and_address():
    launch = plan({**GPU, "resources": {"limits": {"nvidia.com/gpu": "1"}}}, place(L4))
    assert launch.argv[:3] == [sys.executable, "-m", "simulator.server"]
    environment = launch.environment
    assert environment["GKE_INFERENCE_SIM_ACCELERATOR"] == "nvidia-l4"
    assert environment["GKE_INFERENCE_SIM_POD_IP"] == "127.64.0.9"
    assert json.loads(environment["GKE_INFERENCE_SIM_DURATIONS"])["compile_tpu"] > 0
    assert environment["X"] == "1"


def test_an_engine_on_the_wrong_hardware_sleeps():
    assert plan(GPU, place(V6E)).argv == []
    tpu = {**GPU, "image": "vllm/vllm-tpu:1"}
    assert plan(tpu, place(V6E)).environment["GKE_INFERENCE_SIM_CHIPS"] == "4"


def test_what_a_container_asks_for_or_is_told_says_more_than_its_image():
    asking = {**GPU, "resources": {"limits": {"google.com/tpu": "4"}}}
    assert made_for(asking) == "tpu"
    assert made_for(GPU) == "gpu"
    told = {**GPU, "command": ["python3", "-m", "engine", "--hardware=cpu", "--", "tritonserver"]}
    assert made_for(told) == "cpu"


def test_a_nodes_hardware_is_read_from_its_labels():
    labels = {"cloud.google.com/gke-accelerator": "nvidia-l4"}
    node: dict[str, Any] = {
        "metadata": {"labels": labels},
        "status": {"capacity": {"nvidia.com/gpu": "2"}},
    }
    assert of_node(node) == NodeHardware("gpu", "nvidia-l4", 2)
    assert of_node({"metadata": {}}).kind == "cpu"


def test_the_pickers_ports_are_moved_and_its_paths_rewritten(tmp_path: Path):
    container = {
        "name": "epp",
        "image": "x/epp:v1.2.0",
        "args": ["--config-file", "/config/p.yaml", "--grpc-port=9100", "-v", "1"],
    }
    launch = plan(container, place(L4, [Mount("/config", tmp_path, True)]))
    given = ["/bin/epp", "--config-file", f"{tmp_path}/p.yaml", "-v", "1"]
    on_loopback = loopback_only.command(given)
    assert launch.argv[: len(on_loopback)] == on_loopback
    assert set(launch.ports) == {9100, 9003, 9090}
    assert f"--grpc-port={launch.ports[9100][1]}" in launch.argv
    assert launch.environment["KUBECONFIG"] == "/k"
    assert launch.needs_kubeconfig


@pytest.mark.parametrize(
    ("content", "given", "reads"),
    [
        ("plugins: []", [], ["--refresh-metrics-interval=0.1s"]),
        ("plugins: []", ["--refresh-metrics-interval=1s"], []),
        ("featureGates: [flowControl]", [], []),
    ],
)
def test_a_picker_reads_metrics_less_often_unless_it_has_queues_or_a_flag_says_how_often(
    tmp_path: Path, content: str, given: list[str], reads: list[str]
):
    (tmp_path / "p.yaml").write_text(content)
    args = ["--config-file=/config/p.yaml", *given]
    container = {"name": "epp", "image": "x/epp:v1.2.0", "args": args}
    launch = plan(container, place(L4, [Mount("/config", tmp_path, True)]))
    assert [each for each in launch.argv if "metrics-interval" in each] == given + reads


def test_the_callout_finds_its_configuration_and_the_twins_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(secret_manager, "url", lambda paths: f"http://{paths.root.name}")
    container = {
        "name": "callout",
        "image": "x/callout:1",
        "args": ["--config=/etc/callout/config.yaml", "--grpc-port", "9010"],
    }
    where = place(L4, [Mount("/etc/callout", tmp_path, True)])
    launch = plan(container, replace(where, root=Path("/twin"), project="acme"))
    assert launch.argv[:2] == ["/bin/callout", f"--config={tmp_path}/config.yaml"]
    assert set(launch.ports) == {9010, 9011, 9012}
    assert f"--health-port={launch.ports[9011][1]}" in launch.argv
    assert "--address=127.0.0.1" in launch.argv
    assert launch.environment["SECRET_MANAGER_ENDPOINT"] == "http://twin/as/ksa/acme/n/default"
    assert launch.environment["IAP_KEYS"] == "http://twin/verify/public_key-jwk"
    assert not launch.needs_kubeconfig


def test_flags_are_taken_out_in_both_ways_of_writing():
    rest, found = split_flags(["--a=1", "--b", "2", "-v", "3"], {"a", "b"})
    assert (rest, found) == (["-v", "3"], {"a": "1", "b": "2"})


@pytest.mark.parametrize(
    ("text", "value"),
    [("$(A)-x", "1-x"), ("$(MISSING)", "$(MISSING)"), ("$$(A)", "$(A)"), ("$A", "$A")],
)
def test_references_are_expanded_as_kubernetes_does(text: str, value: str):
    assert expand(text, {"A": "1"}) == value


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "p"),
        ("metadata.labels['a.b/c']", "x"),
        ("status.podIP", "127.64.0.9"),
        ("spec.nodeName", "node-1"),
        ("spec.serviceAccountName", "default"),
    ],
)
def test_the_downward_api_gives_fields_of_the_pod(path: str, value: str):
    assert field(POD, path) == value


def test_an_unknown_field_is_refused():
    with pytest.raises(ConfigError, match="unsupported fieldPath"):
        field(POD, "spec.nothing")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("--config-file=/config/a.yaml", "--config-file=/host/a.yaml"),
        ("/config", "/host"),
        ("/configuration/a", "/configuration/a"),
        ("/etc/config/a", "/etc/config/a"),
    ],
)
def test_only_whole_mount_paths_are_rewritten(text: str, value: str):
    assert rewrite(text, [Mount("/config", Path("/host"), False)]) == value


@pytest.mark.parametrize(
    ("secrets", "has_endpoint"), [({"A": "projects/p/secrets/s"}, True), ({}, False)]
)
def test_only_a_launcher_of_an_engine_with_secrets_gets_the_twins_secret_manager(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secrets: dict[str, str], has_endpoint: bool
):
    monkeypatch.setattr(secret_manager, "url", lambda _: "http://twin")
    file = tmp_path / "opt/gke-inference/engine/spec.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"serving": {"gpu": {"secrets": secrets}}}))
    where = replace(place(L4), root=tmp_path / "twin", project="acme")
    made = launcher.environment({"PATH": "/bin"}, tmp_path, where)
    expected = "http://twin/as/ksa/acme/n/default" if has_endpoint else None
    assert made.get("SECRET_MANAGER_ENDPOINT") == expected
