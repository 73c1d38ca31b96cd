"""What TPU servers keep."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rules.serving.compile_cache import RULE


def deployment(container, volumes=(), annotations=None):
    return {
        "spec": {
            "template": {
                "metadata": {"annotations": annotations or {}},
                "spec": {"containers": [container], "volumes": list(volumes)},
            }
        }
    }


CACHE = {"name": "VLLM_XLA_CACHE_PATH", "value": "/mnt/xla/llama"}
JAX_CACHE = {"name": "JAX_COMPILATION_CACHE_DIR", "value": "/mnt/xla/flux"}
MOUNT = {"name": "xla", "mountPath": "/mnt/xla"}


def server(env=(CACHE,), mounts=(MOUNT,), volume=None, image="registry.example/server:1"):
    container = {
        "image": image,
        "resources": {"limits": {"google.com/tpu": "4"}},
        "env": list(env),
        "volumeMounts": list(mounts),
    }
    lasting = {"name": "xla", "csi": {"driver": "gcsfuse.csi.storage.gke.io"}}
    return deployment(container, [volume or lasting])


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        ("kubernetes:apps/v1:Deployment", server(), None),
        (
            "kubernetes:apps/v1:Deployment",
            server(volume={"name": "xla", "persistentVolumeClaim": {"claimName": "c"}}),
            None,
        ),
        (
            "kubernetes:apps/v1:Deployment",
            server(volume={"name": "xla", "emptyDir": {}}),
            "must outlive the pod",
        ),
        (
            "kubernetes:apps/v1:Deployment",
            server(volume={"name": "xla", "emptyDir": {"medium": "Memory"}}),
            "must outlive the pod",
        ),
        ("kubernetes:apps/v1:Deployment", server(env=()), "VLLM_XLA_CACHE_PATH must be a path"),
        ("kubernetes:apps/v1:Deployment", server(env=(JAX_CACHE,)), None),
        (
            "kubernetes:apps/v1:Deployment",
            server(env=(JAX_CACHE,), mounts=()),
            "must hold JAX_COMPILATION_CACHE_DIR",
        ),
        (
            "kubernetes:apps/v1:Deployment",
            server(env=(JAX_CACHE,), image="docker.io/vllm/vllm-tpu:v0.32.0"),
            "VLLM_XLA_CACHE_PATH must be a path",
        ),
        ("kubernetes:apps/v1:Deployment", server(mounts=()), "must hold VLLM_XLA_CACHE_PATH"),
        (
            "kubernetes:apps/v1:Deployment",
            server(mounts=({"name": "xla", "mountPath": "/mnt/xl"},)),
            "must hold VLLM_XLA_CACHE_PATH",
        ),
        (
            "kubernetes:apps/v1:Deployment",
            server(mounts=(MOUNT, {"name": "other", "mountPath": "/mnt"})),
            None,
        ),
        (
            "kubernetes:apps/v1:Deployment",
            server(env=({"name": "VLLM_XLA_CACHE_PATH", "value": "gs://bucket/xla"},), mounts=()),
            None,
        ),
        (
            "kubernetes:apps/v1:Deployment",
            deployment({"env": [{"name": "TPU_TOPOLOGY", "value": "2x2"}]}),
            "VLLM_XLA_CACHE_PATH",
        ),
        (
            "kubernetes:apps/v1:Deployment",
            deployment({"resources": {"limits": {"nvidia.com/gpu": 1}}}),
            None,
        ),
        (
            "kubernetes:apps/v1:Deployment",
            server(env=({"name": "VLLM_XLA_CACHE_PATH", "value": UNKNOWN},)),
            "unknown",
        ),
        (
            "kubernetes:apps/v1:Deployment",
            server(volume={"name": "xla", "csi": UNKNOWN}),
            "unknown",
        ),
    ],
)
def test_compile_cache_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)
