"""Examples that no short test deploys, previewed with the real engine and the twin's providers.

tests/contract/infra/test_example_resources.py has the resources of the others.
"""

import json
from collections import Counter

import pytest

from scripts.shared.scratch_project import scratch_project
from tests.platform.examples.test_examples import engine
from tests.shipped_stacks import EXAMPLES
from tests.warm_engine import WarmEngine

pytestmark = pytest.mark.needs_tools

__all__ = ["engine"]


@pytest.fixture(scope="module")
def previews(engine):
    """The engine of the twin, with the SDKs loaded."""
    warm = WarmEngine(engine.paths)
    yield warm
    warm.close()


GLOBAL = {
    "BackendService": 1,
    "CertificateMap": 1,
    "CertificateMapEntry": 1,
    "GlobalAddress": 1,
    "GlobalForwardingRule": 1,
    "RegionNetworkEndpointGroup": 3,
    "SSLPolicy": 1,
    "SecurityPolicy": 1,
    "ServiceAttachment": 3,
    "TargetHttpsProxy": 1,
    "URLMap": 1,
}
FLEET = {
    "AutoscalingMetric": 2,
    "Feature": 2,
    "GCPBackendPolicy": 1,
    "Gateway": 1,
    "HTTPRoute": 1,
    "InferencePool": 2,
    "Membership": 2,
}
APIGEE = {
    "APIOperationSet": 2,
    "APIProduct": 2,
    "ApigeeBackendService": 1,
    "GCPTrafficExtension": 1,
}
STREAM = {
    "HorizontalPodAutoscaler": 3,
    "Subscription": 3,
    "SubscriptionIAMMember": 2,
    "Topic": 3,
    "TopicIAMMember": 3,
}
CLAIMS = {
    "DaemonSet": 3,
    "DeviceClass": 2,
    "NodePool": 3,
    "ResourceClaimTemplate": 1,
    "ValidatingAdmissionPolicy": 2,
}
QUEUES = {
    "AdmissionCheck": 1,
    "ClusterQueue": 3,
    "Cohort": 2,
    "LocalQueue": 3,
    "ProvisioningRequestConfig": 1,
    "ResourceFlavor": 3,
    "WorkloadPriorityClass": 2,
}


def gpudirect(interfaces: int) -> dict[str, int]:
    """Return what an example with the interfaces of accelerators creates."""
    return {
        "DaemonSet": 2,
        "Firewall": 1 + interfaces,
        "GKENetworkParamSet": interfaces,
        "LeaderWorkerSet": 1,
        # The platform's and its component, and of each interface: a VPC and an object.
        "Network": 2 + 2 * interfaces,
        "NodePool": 3,
        "Subnetwork": 2 + interfaces,
    }


DNS = {
    "GCPTrafficExtension": 3,
    "HealthCheck": 1,
    "Instance": 3,
    "RecordSet": 1,
    "RegionSecurityPolicy": 3,
    "RegionSslPolicy": 3,
}


PROOFS = {
    "BackendService": 2,
    "ServerTlsPolicy": 1,
    "TargetHttpsProxy": 1,
    "TrustConfig": 1,
    "WebBackendServiceIamMember": 1,
}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("apigee", APIGEE),
        ("teams/shared", {"Namespace": 3, "ResourceQuota": 3}),
        ("three-regions", GLOBAL),
        ("nearest-region", DNS),
        ("client-certificates", PROOFS),
        ("internal-front", FLEET),
        ("shared-adapters", {"Instance": 1, "PersistentVolume": 1, "PersistentVolumeClaim": 1}),
        ("lustre-adapters", {"Instance": 1, "PersistentVolume": 1, "PersistentVolumeClaim": 1}),
        ("archive", {"Bucket": 3, "BucketIAMMember": 4, "Subscription": 2}),
        ("rdma", {"LeaderWorkerSet": 1, "ResourceClaimTemplate": 1}),
        ("batch-slices", {"ClusterQueue": 1, "JobSetOperator": 1, "PodMonitoring": 7}),
        ("clients", {"GCPTrafficExtension": 1, "Instance": 2, "Secret": 1}),
        ("device-claims", CLAIMS),
        ("disaggregation", {"HorizontalPodAutoscaler": 2, "InferencePool": 1}),
        ("engines", {"InferencePool": 3, "HTTPRoute": 4, "HorizontalPodAutoscaler": 3}),
        ("existing-network/existing", {"Network": 0, "Subnetwork": 0, "Bucket": 1, "Cluster": 1}),
        ("guardrails/guarded", {"GCPTrafficExtension": 1, "NemoGuardrails": 2, "Template": 1}),
        ("kv-offload", {"CapacityBuffer": 1, "Instance": 1, "PersistentVolumeClaim": 1}),
        ("multi-host/slices", {"LeaderWorkerSet": 1, "MutatingWebhookConfiguration": 1}),
        ("queues", QUEUES),
        ("sdxl", {"HTTPRoute": 2, "HealthCheckPolicy": 3, "InferencePool": 0}),
        ("streaming", STREAM),
        ("tcpx", gpudirect(4)),
        ("tcpxo", gpudirect(8)),
        ("video", {"HTTPRoute": 2, "HealthCheckPolicy": 3, "InferencePool": 0}),
        ("vision-language", {"InferencePool": 1, "RouterNat": 1}),
        ("wide-ep", {"LeaderWorkerSet": 2, "ResourceClaimTemplate": 2, "ResourcePolicy": 1}),
    ],
)
def test_an_example_previews_with_what_it_is_about(previews, tmp_path, name, expected):
    folder, _, stack = name.rpartition("/")
    text = (EXAMPLES / (folder or stack) / f"Pulumi.{stack}.yaml").read_text()
    project = scratch_project(tmp_path, stack, text)
    words = ("-s", stack, "--non-interactive")
    previews.run("stack", "init", *words, capture=True, project=project)
    ran = previews.run("preview", "--json", *words, capture=True, project=project)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    made = Counter(
        step["urn"].split("::")[2].rpartition(":")[2]
        for step in json.loads(ran.stdout)["steps"]
        if step["op"] == "create"
    )
    assert {kind: made[kind] for kind in expected} == expected
