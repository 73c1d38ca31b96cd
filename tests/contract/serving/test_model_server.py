from typing import Any, cast

import pulumi
import pulumi_kubernetes as k8s
import pytest

from gke_inference.serving.launcher.commands import command
from gke_inference.serving.launcher.spec import Spec, read
from gke_inference.serving.model_server import ModelServer

DEPLOYMENT = "kubernetes:apps/v1:Deployment"
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
BUDGET = "kubernetes:policy/v1:PodDisruptionBudget"
V6E_8: dict[str, Any] = {
    "accelerator": "tpu-v6e",
    "topology": "2x4",
    "provisioning": "on-demand",
}


def build(recorder, args, opts=None) -> ModelServer:
    made: list[ModelServer] = []

    def program():
        made.append(ModelServer("llama", args, opts))

    recorder.run(program)
    return made[0]


def deployments(recorder, args) -> dict[str, dict[str, Any]]:
    build(recorder, args)
    return recorder.objects(DEPLOYMENT)


def launcher_spec(recorder) -> Spec:
    return read(recorder.one(CONFIG_MAP).inputs["data"]["spec.json"])


def refused(recorder, args, message):
    with pytest.raises(pulumi.InputPropertyError, match=message):
        build(recorder, args)
    assert recorder.all(DEPLOYMENT) == []


def pod(deployment):
    return deployment["spec"]["template"]["spec"]


def test_a_pair_is_two_deployments_with_one_label(recorder, args):
    server = build(recorder, args)
    assert server.deployments == {"tpu": "llama-8b-tpu", "gpu": "llama-8b-gpu"}
    made = recorder.objects(DEPLOYMENT)
    assert set(made) == {"llama-8b-tpu", "llama-8b-gpu"}
    for deployment in made.values():
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert server.labels.items() <= labels.items()
    selectors = [deployment["spec"]["selector"]["matchLabels"] for deployment in made.values()]
    assert selectors[0] != selectors[1]


def test_a_server_says_where_it_may_run_and_what_it_answers_to(recorder, args):
    server = build(recorder, args)
    assert server.placements == [
        "tpu-v6e 2x2 reservation",
        "nvidia-l4 x1 on-demand",
        "nvidia-l4 x1 spot",
    ]
    assert server.served_names == ["llama-3.1-8b", "sql"]
    assert (server.port, server.labels) == (8000, {"gke-inference/model": "llama-8b"})


def test_a_pair_starts_with_its_replicas_on_tpu_and_one_gpu_standby(recorder, args):
    made = deployments(recorder, args)
    counts = {name: deployment["spec"]["replicas"] for name, deployment in made.items()}
    assert counts == {"llama-8b-tpu": 2, "llama-8b-gpu": 1}


def test_a_pair_without_standby_begins_with_one_that_the_autoscaler_takes_away(recorder, args):
    """From zero the autoscaler starts only what it brought to zero itself."""
    made = deployments(recorder, {**args, "standby_replicas": 0})
    assert made["llama-8b-gpu"]["spec"]["replicas"] == 1


def test_rungs_of_one_kind_are_one_deployment(recorder, gpu_only):
    server = build(recorder, gpu_only)
    assert server.deployments == {"gpu": "llama-8b-gpu"}
    assert recorder.one(DEPLOYMENT).inputs["spec"]["replicas"] == 2


def test_nothing_waits_for_accelerators(recorder, args):
    for deployment in deployments(recorder, args).values():
        assert deployment["metadata"]["annotations"] == {"pulumi.com/skipAwait": "true"}


def test_a_server_asks_for_every_chip_of_its_node(recorder, args):
    made = deployments(recorder, args)
    tpu, gpu = (pod(made[name])["containers"][0] for name in ("llama-8b-tpu", "llama-8b-gpu"))
    assert tpu["resources"]["limits"] == {"google.com/tpu": "4"}
    assert tpu["resources"]["requests"]["google.com/tpu"] == "4"
    assert gpu["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    for container in (tpu, gpu):
        assert {"cpu", "memory"} <= set(container["resources"]["requests"])


def test_requests_fit_the_smallest_machine_of_the_rungs(recorder, gpu_only):
    small = {"accelerator": "nvidia-l4", "machine_type": "g2-standard-4", "provisioning": "spot"}
    made = deployments(recorder, {**gpu_only, "rungs": [*gpu_only["rungs"], small]})
    requests = pod(made["llama-8b-gpu"])["containers"][0]["resources"]["requests"]
    assert (requests["cpu"], requests["memory"]) == ("3", "11Gi")


def test_a_server_lands_only_on_its_class_and_accepts_its_taints(recorder, args):
    made = deployments(recorder, args)
    spec = pod(made["llama-8b-tpu"])
    assert spec["nodeSelector"] == {"cloud.google.com/compute-class": "chat-tpu"}
    tolerated = {(taint["key"], taint.get("value")) for taint in spec["tolerations"]}
    assert tolerated == {
        ("google.com/tpu", None),
        ("cloud.google.com/gke-spot", "true"),
        ("cloud.google.com/compute-class", "chat-tpu"),
    }


def test_a_replica_finishes_its_requests_before_it_goes(recorder, args):
    made = deployments(recorder, {**args, "longest_request_seconds": 900})
    spec = pod(made["llama-8b-gpu"])
    assert spec["containers"][0]["lifecycle"]["preStop"] == {"sleep": {"seconds": 5}}
    assert spec["terminationGracePeriodSeconds"] > 900 + 15
    told = launcher_spec(recorder)
    assert (told.settle_seconds, told.longest_request_seconds) == (10, 900)


def test_a_start_may_take_half_an_hour_and_a_stall_may_not(recorder, args):
    container = pod(deployments(recorder, args)["llama-8b-tpu"])["containers"][0]
    startup = container["startupProbe"]
    assert startup["failureThreshold"] * startup["periodSeconds"] == 1800
    readiness = container["readinessProbe"]
    assert readiness["failureThreshold"] * readiness["periodSeconds"] == 10
    assert readiness["httpGet"] == {"path": "/readyz", "port": 8090}
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": 8090}


def test_pods_start_the_launcher_with_the_files_and_the_spec_of_the_platform(recorder, args):
    made = deployments(recorder, args)
    config = recorder.one(CONFIG_MAP).inputs
    spec = launcher_spec(recorder)
    assert set(config["data"]) >= {"__main__.py", "main.py", "commands.py", "spec.json"}
    assert set(spec.serving) == {"gpu", "tpu"}
    for kind in ("gpu", "tpu"):
        template = made[f"llama-8b-{kind}"]["spec"]["template"]
        (volume,) = [each for each in template["spec"]["volumes"] if each["name"] == "launcher"]
        assert volume["configMap"]["name"] == config["metadata"]["name"] == "llama-8b-engine"
        container = template["spec"]["containers"][0]
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert mounts["launcher"] == "/opt/gke-inference/engine"
        at = container["command"].index("--")
        assert container["command"][:3] == ["python3", "-m", "engine"]
        assert [*container["command"][at + 1 :], *container["args"]] == command(
            spec.serving[kind], {}
        )


def test_pods_start_again_when_what_their_launcher_is_told_changes(recorder, args):
    def marks(changes):
        recorder.registrations.clear()
        made = deployments(recorder, {**args, **changes})
        notes = made["llama-8b-gpu"]["spec"]["template"]["metadata"]["annotations"]
        return notes["gke-inference/engine"]

    assert marks({}) == marks({}) != marks({"context": 4096})


def test_an_update_frees_a_chip_before_it_asks_for_one(recorder, args, gpu_only):
    made = deployments(recorder, args)
    assert {d["spec"]["strategy"]["rollingUpdate"]["maxSurge"] for d in made.values()} == {0}
    recorder.registrations.clear()
    alone = deployments(recorder, {**gpu_only, "replicas": {"min": 1, "max": 1}})["llama-8b-gpu"]
    assert alone["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}


def test_one_budget_covers_all_hardware_of_a_model(recorder, args):
    build(recorder, args)
    assert recorder.one(BUDGET).inputs["spec"] == {
        "maxUnavailable": 1,
        "selector": {"matchLabels": {"gke-inference/model": "llama-8b"}},
    }


def test_gpu_servers_are_unprivileged_and_tpu_servers_gain_nothing(recorder, args):
    made = deployments(recorder, args)
    gpu, tpu = pod(made["llama-8b-gpu"]), pod(made["llama-8b-tpu"])
    assert gpu["securityContext"]["runAsNonRoot"] is True
    assert gpu["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    for spec in (gpu, tpu):
        assert spec["containers"][0]["securityContext"]["allowPrivilegeEscalation"] is False
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["automountServiceAccountToken"] is False
        assert spec["serviceAccountName"] == "llama-8b"


def test_replicas_are_spread_over_zones(recorder, args):
    (spread,) = pod(deployments(recorder, args)["llama-8b-gpu"])["topologySpreadConstraints"]
    assert spread["topologyKey"] == "topology.kubernetes.io/zone"
    assert spread["labelSelector"] == {"matchLabels": {"gke-inference/model": "llama-8b"}}


def test_the_callers_provider_reaches_every_object(recorder, args):
    def program():
        provider = k8s.Provider("cluster", kubeconfig="{}")
        ModelServer("llama", args, pulumi.ResourceOptions(providers={"kubernetes": provider}))

    recorder.run(program)
    made = [seen for seen in recorder.registrations if seen.type in (DEPLOYMENT, BUDGET)]
    assert len(made) == 3
    assert all("cluster" in seen.provider for seen in made)


def test_numbers_of_other_languages_build_the_same_pods(recorder, args):
    wire = {**args, "context": 8192.0, "replicas": {"min": 2.0, "max": 4.0}}
    wire["size"] = {"parameters_billion": 8, "bits": 16.0}
    spec = pod(deployments(recorder, cast("Any", wire))["llama-8b-gpu"])
    assert "--max-model-len=8192" in spec["containers"][0]["args"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"compute_classes": {"tpu": "t"}}, "computeClasses.*must have 'gpu', got"),
        ({"context": 0}, "context.*77 to 10000000, got 0"),
        ({"form": "triple"}, "form.*single, paired, dual-container, dra, got 'triple'"),
        (
            {"form": "single"},
            "form.*must be paired, dual-container or dra when there",
        ),
        ({"longest_request_seconds": 0}, "longestRequestSeconds.*1 to 3600"),
        (
            {"size": {"parameters_billion": 70.0}},
            r"rungs.*every rung; rungs\[0\]: it needs",
        ),
        ({"settings": {"quantization": "gptq"}}, "settings.quantization.*on tpu-v6e, got 'gptq'"),
        ({"settings": {"kv_cache_dtype": "int3"}}, "settings.kvCacheDtype.*got 'int3'"),
        ({"settings": {"block_size": 7}}, "settings.blockSize.*got 7"),
        ({"replicas": {"min": -1, "max": 1}}, "replicas.min.*got -1"),
        ({"replicas": {"min": 3, "max": 2}}, r"replicas.min.*must be at most max \(2\), got 3"),
        ({"rungs": []}, "rungs.*at least 1 entry, got 0"),
        ({"standby_replicas": -1}, "standbyReplicas.*got -1"),
        ({"task": "sing"}, "task.*generate, embed, image, video, predict, got 'sing'"),
        (
            {"videos": {"frames": [81]}},
            "videos.*must not be set when task is generate",
        ),
        ({"videos": {"frames": [81.5]}}, r"videos.frames\[0\].*must be a whole number, got 81.5"),
        ({"task": "embed"}, "adapters.*must not be set when task is embed, got 1"),
        ({"weights": "hf://llama"}, "weights.*gs://BUCKET/PATH@VERSION, got 'hf://llama'"),
        ({"adapters": {"sql": "sql"}}, "adapters.sql.*gs://BUCKET/PATH"),
    ],
)
def test_a_server_that_could_not_work_is_refused(recorder, args, change, message):
    refused(recorder, {**args, **change}, message)


@pytest.mark.parametrize(
    ("guess", "message"),
    [
        ({"method": "eagle3", "tokens": 3}, "weights.*must name the EAGLE-3 head with method"),
        (
            {"method": "mtp", "tokens": 1, "weights": "gs://acme-models/head@v1"},
            "weights.*must not be set with method 'mtp'",
        ),
        (
            {"method": "mtp", "tokens": 1},
            "method.*must not be mtp: llama-3.1-8b has no layers for further tokens",
        ),
        ({"method": "medusa", "tokens": 1}, "speculative.*draft, eagle3, mtp, ngram.*'medusa'"),
    ],
)
def test_speculation_that_the_model_or_engine_lacks_is_refused(recorder, gpu_only, guess, message):
    weights = "gs://acme-models/llama-3.1-8b@v1"
    refused(recorder, {**gpu_only, "weights": weights, "settings": {"speculative": guess}}, message)


def test_an_eagle_head_is_not_for_tpu(recorder, args):
    guess = {"method": "eagle3", "tokens": 3, "weights": "gs://acme-models/head@v1"}
    refused(
        recorder,
        {**args, "settings": {"speculative": guess}},
        "speculative.*on tpu-v6e, got 'eagle3'",
    )


def test_a_tpu_server_without_a_compile_cache_is_refused(recorder, args):
    del args["cache_bucket"]
    refused(recorder, args, "cacheBucket.*must be set with a TPU rung")


def test_rungs_of_different_shapes_are_refused_in_one_deployment(recorder, args):
    refused(
        recorder,
        {**args, "rungs": [*args["rungs"], V6E_8]},
        "rungs.*same chips, topology and network.*"
        "tpu-v6e 2x2 reservation and tpu-v6e 2x4 on-demand",
    )


def test_a_slice_of_several_hosts_is_refused_in_one_pod_for_both(recorder, dual):
    many = {**dual["rungs"][0], "topology": "4x4"}
    refused(
        recorder,
        {**dual, "rungs": [many, dual["rungs"][1]]},
        r"form.*must not be dual-container: rungs\[0\] spans several hosts",
    )


def test_a_server_can_read_its_own_node_with_a_token_that_lasts_an_hour(recorder, args):
    for made in deployments(recorder, args).values():
        spec = made["spec"]["template"]["spec"]
        (engine,) = spec["containers"][:1]
        name = next(entry for entry in engine["env"] if entry["name"] == "NODE_NAME")
        assert name["valueFrom"] == {"fieldRef": {"fieldPath": "spec.nodeName"}}
        (mount,) = (m for m in engine["volumeMounts"] if m["name"] == "node-reader")
        assert mount == {
            "mountPath": "/var/run/secrets/gke-inference",
            "name": "node-reader",
            "readOnly": True,
        }
        (volume,) = (each for each in spec["volumes"] if each["name"] == "node-reader")
        token = volume["projected"]["sources"][0]["serviceAccountToken"]
        assert token == {"expirationSeconds": 3600, "path": "token"}
        assert spec["automountServiceAccountToken"] is False
