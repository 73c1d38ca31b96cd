"""The real engine loads the policy pack and stops violations."""

import json
from pathlib import Path

import pytest

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(120)]
PACK = str(Path(__file__).resolve().parents[4] / "policies")

PROGRAM = """
import json
import pulumi
import pulumi_kubernetes as k8s

nowhere = {
    "current-context": "c",
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:9"}}],
    "users": [{"name": "c", "user": {}}],
}
provider = k8s.Provider("p", kubeconfig=json.dumps(nowhere))
opts = pulumi.ResourceOptions(provider=provider)
home = k8s.core.v1.Namespace("home", metadata={"name": "home"}, opts=opts)


def pod(name, image):
    main = {
        "name": "main",
        "image": image,
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    spec = {
        "automountServiceAccountToken": False,
        "containers": [main],
        "enableServiceLinks": False,
    }
    k8s.core.v1.Pod(name, metadata={"name": name, "namespace": "home"}, spec=spec, opts=opts)


pod("moving", "vllm/vllm-openai:latest")
pod("unknown", home.status.apply(str))  # a status is known when the object is there
"""


def test_a_violation_stops_the_preview_and_an_unknown_value_is_noted(stack):
    stack.write(PROGRAM)
    shown = stack.run("preview", "--policy-pack", PACK, check=False)
    assert "[mandatory]  pinned-image  (kubernetes:core/v1:Pod: moving)" in shown
    assert "spec.containers[0].image: must be an exact version or a digest" in shown
    assert "preview failed" in shown
    assert "can't run policy 'pinned-image'" in shown


def test_the_level_of_a_rule_is_set_by_the_configuration_of_the_pack(stack, tmp_path):
    stack.write(PROGRAM)
    levels = tmp_path / "levels.json"
    levels.write_text(json.dumps({"pinned-image": "advisory"}))
    shown = stack.run("preview", "--policy-pack", PACK, "--policy-pack-config", str(levels))
    assert "[advisory]  pinned-image  (kubernetes:core/v1:Pod: moving)" in shown
