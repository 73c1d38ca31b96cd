"""A model on Cloud Run: its service, its account, and what is refused before anything is made."""

from typing import Any

import pulumi
import pytest

from gke_inference import CloudRunModel
from gke_inference.catalogue.accelerators import accelerator
from gke_inference.catalogue.cloud_run import gpu_names, gpu_quota, run_gpu, service_url
from gke_inference.catalogue.platform_prices import run_instance_price
from gke_inference.intent.cloud_run import run_rung
from twin.providers.gcp.checks.validate import validate_inputs

SERVICE = "gcp:cloudrunv2/service:Service"
MODEL: dict[str, Any] = {
    "accelerator": "nvidia-l4",
    "context": 8192,
    "size": {"parameters_billion": 8.03},
    "weights": "gs://acme-models/llama-3.1-8b@2f0c8a41b6de",
}
ARGS: dict[str, Any] = {
    "account_id": "acme-dev-llama",
    "bucket": "acme-models",
    "project": "acme",
    "region": "us-central1",
    "served_name": "llama-3.1-8b",
    "service_name": "acme-dev-llama",
}


def built(recorder: Any, model: dict[str, Any] | None = None, **args: Any) -> dict[str, Any]:
    """Build a model and return the inputs of its service, which Google's schema accepts."""
    given: Any = {**ARGS, **args, "model": {**MODEL, **(model or {})}}
    recorder.run(lambda: CloudRunModel("llama", given).url)
    inputs = recorder.one(SERVICE).inputs
    assert [str(failure) for failure in validate_inputs(SERVICE, inputs)] == []
    return inputs


def test_an_instance_is_one_vllm_on_one_gpu_that_streams_its_weights(recorder: Any) -> None:
    template = built(recorder)["template"]
    (container,) = template["containers"]
    assert container["commands"] == ["vllm", "serve"]
    assert container["args"] == [
        "gs://acme-models/llama-3.1-8b/2f0c8a41b6de",
        "--served-model-name=llama-3.1-8b",
        "--port=8000",
        "--tensor-parallel-size=1",
        "--max-model-len=8192",
        "--gpu-memory-utilization=0.9",
        "--no-enable-log-requests",
        "--load-format=runai_streamer",
        "--enable-prefix-caching",
    ]
    assert container["image"].startswith("docker.io/vllm/vllm-openai:")
    assert container["ports"] == {"containerPort": 8000}
    assert template["nodeSelector"] == {"accelerator": "nvidia-l4"}
    assert template["gpuZonalRedundancyDisabled"] is True


def test_an_instance_has_the_size_that_google_recommends_and_is_billed_as_a_whole(
    recorder: Any,
) -> None:
    resources = built(recorder)["template"]["containers"][0]["resources"]
    assert resources["limits"] == {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "1"}
    assert resources["cpuIdle"] is False


def test_a_larger_gpu_has_its_own_least_size(recorder: Any) -> None:
    model = {"accelerator": "nvidia-rtx-pro-6000", "size": {"parameters_billion": 32, "bits": 8}}
    template = built(recorder, {**model, "zonal_redundancy": True})["template"]
    limits = template["containers"][0]["resources"]["limits"]
    assert limits == {"cpu": "20", "memory": "80Gi", "nvidia.com/gpu": "1"}
    assert template["gpuZonalRedundancyDisabled"] is False


def test_instances_scale_between_bounds_by_concurrency(recorder: Any) -> None:
    model = {"concurrency": 16, "max_instances": 3, "min_instances": 1}
    template = built(recorder, model, timeout_seconds=3600)["template"]
    assert template["scaling"] == {"maxInstanceCount": 3, "minInstanceCount": 1}
    assert template["maxInstanceRequestConcurrency"] == 16
    assert template["timeout"] == "3600s"


@pytest.mark.parametrize(("seconds", "delay", "threshold"), [(240, 0, 48), (300, 60, 48)])
def test_a_probe_waits_for_the_weights_and_longer_waits_begin_with_a_delay(
    recorder: Any, seconds: int, delay: int, threshold: int
) -> None:
    probe = built(recorder, {"startup_seconds": seconds})["template"]["containers"][0][
        "startupProbe"
    ]
    assert (probe["initialDelaySeconds"], probe["failureThreshold"]) == (delay, threshold)
    assert probe["periodSeconds"] * threshold == 240
    assert probe["httpGet"] == {"path": "/health", "port": 8000}


def test_only_networks_of_the_project_reach_it_and_nobody_may_call_it(recorder: Any) -> None:
    service = built(recorder)
    assert service["ingress"] == "INGRESS_TRAFFIC_INTERNAL_ONLY"
    assert recorder.all("gcp:cloudrunv2/serviceIamMember:ServiceIamMember") == []


def test_callers_that_are_named_may_call_it(recorder: Any) -> None:
    member = "serviceAccount:app@acme.iam.gserviceaccount.com"
    service = built(recorder, {"ingress": "internal-and-load-balancer"}, callers=[member])
    assert service["ingress"] == "INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER"
    grant = recorder.one("gcp:cloudrunv2/serviceIamMember:ServiceIamMember").inputs
    assert (grant["role"], grant["member"]) == ("roles/run.invoker", member)


def test_its_account_reads_the_bucket_of_its_weights_and_nothing_else(recorder: Any) -> None:
    service = built(recorder)
    email = "acme-dev-llama@acme.iam.gserviceaccount.com"
    assert service["template"]["serviceAccount"] == email
    grant = recorder.one("gcp:storage/bucketIAMMember:BucketIAMMember").inputs
    assert grant == {
        "bucket": "acme-models",
        "member": f"serviceAccount:{email}",
        "role": "roles/storage.objectViewer",
    }


def test_it_can_be_deployed_before_its_weights_exist(recorder: Any) -> None:
    assert built(recorder)["template"]["healthCheckDisabled"] is True


@pytest.mark.parametrize(
    ("model", "args", "field", "rule"),
    [
        ({"weights": "gs://acme-models/llama"}, {}, "weights", "must select a version"),
        ({"weights": "llama@1"}, {}, "weights", "must be gs://BUCKET/PATH"),
        ({"vcpus": 2}, {}, "vcpus", "must be one of 4, 6, 8 with nvidia-l4, got 2"),
        ({"memory_gib": 8}, {}, "memoryGib", "must be 16 to 32 with nvidia-l4, got 8"),
        ({"min_instances": 2}, {}, "minInstances", "must be at most max_instances (1), got 2"),
        ({"task": "image"}, {}, "task", "must be one of generate, embed, got 'image'"),
        (
            {"size": {"parameters_billion": 70}},
            {},
            "accelerator",
            "must hold the model on one GPU: it needs",
        ),
        (
            {},
            {"region": "us-west1"},
            "accelerator",
            "must be a GPU that Cloud Run has in us-west1: nvidia-l4 is in",
        ),
        (
            {"settings": {"kv_offload": {"cpu_gib": 4}}},
            {},
            "settings.kvOffload",
            "must not be set on Cloud Run: it needs memory or disks in addition to the engine",
        ),
        (
            {"settings": {"engine_env": {"VLLM_API_KEY": "x"}}},
            {},
            "settings.engineEnv.VLLM_API_KEY",
            "must not be set: the platform owns it",
        ),
    ],
)
def test_what_cloud_run_does_not_have_is_refused_with_field_rule_and_value(
    recorder: Any, model: dict[str, Any], args: dict[str, Any], field: str, rule: str
) -> None:
    with pytest.raises(pulumi.InputPropertyError) as refused:
        built(recorder, model, **args)
    assert refused.value.property_path == f"model.{field}"
    assert refused.value.reason.startswith(rule)


def test_a_request_and_a_service_name_have_limits(recorder: Any) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"timeout_seconds": 3601}, "3600"),
        ({"service_name": "a" * 50}, "must be 1 to 49 characters for a run service"),
    ]
    for args, rule in cases:
        with pytest.raises(pulumi.InputPropertyError) as refused:
            built(recorder, **args)
        assert rule in refused.value.reason


def test_every_gpu_of_cloud_run_is_one_of_the_catalogue_with_a_quota_and_a_price() -> None:
    for name in gpu_names():
        gpu = run_gpu(name)
        assert accelerator(name).kind == "gpu"
        assert run_rung(name).chips == 1
        assert gpu.invited < set(gpu.regions)
        single, zonal = (gpu_quota(name, is_zonal=each)[0] for each in (False, True))
        assert single.name == f"{zonal.name}_no_zonal_redundancy"
        assert single.service == "run.googleapis.com"
        size = (gpu.vcpus[0], gpu.usual_gib)
        assert run_instance_price(name, "us-central1", *size, is_zonal=False) is not None
        assert run_instance_price(name, "asia-east2", *size, is_zonal=False) is None


def test_an_instance_costs_its_gpu_processors_and_memory_together() -> None:
    price = run_instance_price("nvidia-l4", "us-central1", 8, 32, is_zonal=False)
    assert price is not None
    assert price.usd == pytest.approx(0.67212 + 8 * 0.0648 + 32 * 0.0072)
    assert (price.per, price.confidence) == ("hour", "secondary")


def test_the_url_of_a_service_is_known_before_it_exists() -> None:
    url = service_url("acme-dev-llama", 314159265358, "us-central1")
    assert url == "https://acme-dev-llama-314159265358.us-central1.run.app"
