"""Which program runs."""

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE as UNKNOWN

from policies.rule import Resource
from policies.rules.serving.pinned_image import RULE

DIGEST = "@sha256:" + 64 * "a"


def deployment(container, volumes=(), annotations=None):
    return {
        "spec": {
            "template": {
                "metadata": {"annotations": annotations or {}},
                "spec": {"containers": [container], "volumes": list(volumes)},
            }
        }
    }


@pytest.mark.parametrize(
    ("resource_type", "props", "expected"),
    [
        ("kubernetes:apps/v1:Deployment", deployment({"image": "vllm/vllm-openai:v0.11.0"}), None),
        (
            "kubernetes:apps/v1:Deployment",
            deployment({"image": f"vllm/vllm-openai{DIGEST}"}),
            None,
        ),
        (
            "kubernetes:apps/v1:Deployment",
            deployment({"image": f"vllm/vllm-openai:latest{DIGEST}"}),
            None,
        ),
        (
            "kubernetes:apps/v1:Deployment",
            deployment({"image": "us-docker.pkg.dev/p/r/i:1.2.3-cu128"}),
            None,
        ),
        (
            "kubernetes:apps/v1:Deployment",
            deployment({"image": "vllm/vllm-tpu:nightly-20260101-abc1234"}),
            "nightly",
        ),
        (
            "kubernetes:apps/v1:Deployment",
            deployment({"image": "vllm/vllm-openai:latest"}),
            "latest",
        ),
        (
            "kubernetes:apps/v1:Deployment",
            deployment({"image": "vllm/vllm-openai:v1"}),
            "no exact version",
        ),
        (
            "kubernetes:apps/v1:Deployment",
            deployment({"image": "localhost:5000/vllm"}),
            "has no tag",
        ),
        ("kubernetes:apps/v1:Deployment", deployment({"name": "main"}), "image: must be set"),
        ("kubernetes:apps/v1:Deployment", {"spec": {}}, "must list containers"),
        ("kubernetes:apps/v1:Deployment", {}, "must list containers"),
        ("kubernetes:apps/v1:Deployment", deployment({"image": UNKNOWN}), "unknown"),
        (
            "kubernetes:core/v1:Pod",
            {"spec": {"initContainers": [{"image": "a:main"}], "containers": [{"image": "a:1.0"}]}},
            "spec.initContainers[0].image",
        ),
        (
            "kubernetes:batch/v1:CronJob",
            {
                "spec": {
                    "jobTemplate": {
                        "spec": {"template": {"spec": {"containers": [{"image": "a"}]}}}
                    }
                }
            },
            "spec.jobTemplate.spec.template",
        ),
    ],
)
def test_pinned_image_is_judged(judge, check, resource_type, props, expected):
    check(judge(RULE, resource_type, props), expected)


@pytest.mark.parametrize(
    ("image", "refused"),
    [("vllm/vllm-openai:v0.11.0", True), (f"vllm/vllm-openai:v0.11.0{DIGEST}", False)],
)
def test_where_only_digests_will_do_an_exact_version_is_refused(image, refused):
    resource = Resource("kubernetes:apps/v1:Deployment", "it", "urn", deployment({"image": image}))
    found = list(RULE.check(resource, {"digestsOnly": True}))
    assert found == (
        [f"spec.template.spec.containers[0].image: must be a digest, got {image!r}"]
        if refused
        else []
    )
    assert list(RULE.check(resource, {})) == []
