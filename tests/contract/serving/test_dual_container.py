import pulumi
import pytest

from gke_inference.serving.model_server import ModelServer

DEPLOYMENT = "kubernetes:apps/v1:Deployment"


def template(recorder, args):
    recorder.run(lambda: ModelServer("llama", args) and None)
    return recorder.one(DEPLOYMENT).inputs["spec"]["template"]


def refused(recorder, args, message):
    with pytest.raises(pulumi.InputPropertyError, match=message):
        template(recorder, args)


def engines(made):
    """The two servers; a loader of adapters may stand beside them."""
    return [entry for entry in made["spec"]["containers"] if entry["name"] != "adapter-loader"]


def containers(recorder, args):
    return {entry["name"]: entry for entry in engines(template(recorder, args))}


def test_the_container_without_its_device_sleeps(recorder, dual):
    both = containers(recorder, dual)
    assert set(both) == {"vllm-gpu", "vllm-tpu"}
    ports: set[int] = set()
    for kind in ("gpu", "tpu"):
        container = both[f"vllm-{kind}"]
        options = container["command"][: container["command"].index("--")]
        assert {f"--hardware={kind}", "--or-sleep"} <= set(options)
        ports.add(int(container["readinessProbe"]["httpGet"]["port"]))
        assert f"--health-port={max(ports)}" in options
        (peer,) = (int(word[12:]) for word in options if word.startswith("--peer-port="))
        assert peer != max(ports), "each asks the other one whether it serves"
    assert len(ports) == 2, "two launchers in one pod listen on two ports"


def test_a_pod_starts_on_a_node_that_has_no_driver_yet(recorder, dual):
    volumes = {volume["name"]: volume for volume in template(recorder, dual)["spec"]["volumes"]}
    assert volumes["nvidia-driver"]["hostPath"]["type"] == "DirectoryOrCreate"


def test_neither_accelerator_is_asked_for_and_two_pods_never_share_a_node(recorder, dual):
    made = template(recorder, dual)
    for container in engines(made):
        assert set(container["resources"]) == {"requests"}
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}
    (term,) = made["spec"]["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert term["namespaceSelector"] == {}
    assert term["labelSelector"]["matchLabels"].items() <= made["metadata"]["labels"].items()


def test_privilege_is_explained_on_the_pod(recorder, dual):
    made = template(recorder, dual)
    assert "/dev/vfio" in made["metadata"]["annotations"]["gke-inference/privileged-because"]
    for container in engines(made):
        assert container["securityContext"] == {"privileged": True}


def test_the_tpu_container_knows_the_topology_no_device_plugin_told_it(recorder, dual):
    environment = {
        entry["name"]: entry.get("value") for entry in containers(recorder, dual)["vllm-tpu"]["env"]
    }
    assert environment["TPU_TOPOLOGY"] == "2x2"
    assert environment["TPU_ACCELERATOR_TYPE"] == "v6e-4"
    assert environment["TPU_CHIPS_PER_HOST_BOUNDS"] == "2,2,1"
    assert environment["VLLM_XLA_CACHE_PATH"].startswith("/mnt/xla-cache/")


def test_the_pod_accepts_the_taints_of_both_and_names_one_class(recorder, dual):
    spec = template(recorder, dual)["spec"]
    assert spec["nodeSelector"] == {"cloud.google.com/compute-class": "chat"}
    assert {taint["key"] for taint in spec["tolerations"]} == {
        "cloud.google.com/compute-class",
        "cloud.google.com/gke-spot",
        "google.com/tpu",
        "nvidia.com/gpu",
    }


def test_every_mount_has_its_volume_once(recorder, dual):
    spec = template(recorder, dual)["spec"]
    volumes = [volume["name"] for volume in spec["volumes"]]
    assert len(volumes) == len(set(volumes))
    for container in spec["containers"]:
        assert {mount["name"] for mount in container["volumeMounts"]} <= set(volumes)


def test_rungs_without_pools_made_by_hand_are_refused(recorder, dual, args):
    refused(recorder, {**dual, "rungs": args["rungs"]}, "rungs.*must have 'node_pools'")


def test_one_kind_of_hardware_is_refused(recorder, dual):
    refused(
        recorder,
        {**dual, "rungs": dual["rungs"][:1]},
        "form.*must be single when all rungs",
    )


def test_a_tpu_whose_variables_are_not_known_is_refused(recorder, dual):
    newer = {
        "accelerator": "tpu7x",
        "node_pools": ["tpu7x"],
        "provisioning": "on-demand",
        "topology": "2x2x1",
    }
    refused(recorder, {**dual, "rungs": [newer, dual["rungs"][1]]}, "tpu-v5e, tpu-v6e.*got tpu7x")


def test_the_gpu_engine_finds_the_driver_of_the_node(recorder, dual):
    gpu = containers(recorder, dual)["vllm-gpu"]
    environment = {entry["name"]: entry.get("value", "") for entry in gpu["env"]}
    mounted = [mount["mountPath"] for mount in gpu["volumeMounts"]]
    assert environment["LD_LIBRARY_PATH"].startswith("/usr/local/nvidia/lib64")
    assert "/usr/local/nvidia" in mounted
