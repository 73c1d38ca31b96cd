"""What the examples are about, by the number of resources of a kind.

tests/platform/examples/test_previews.py previews them with the real engine.
"""

import json
from pathlib import Path

import pytest

from infra.reading.load import parse, platform_of
from tests.contract.infra.cloud import Deployed
from tests.contract.recorder import Records, Registration
from tests.shipped_stacks import EXAMPLES
from twin.providers.gcp.checks.validate import validate_inputs

BATCH = {"Bucket": 3, "HorizontalPodAutoscaler": 3, "BucketIAMMember": 4}
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
    "APIOperationSet": 3,
    "APIProduct": 3,
    "ApigeeBackendService": 1,
    "Developer": 2,
    "DeveloperApp": 2,
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


ABOUT: dict[str, dict[str, int]] = {
    "apigee": APIGEE,
    "autopilot": {"APIService": 3, "ClusterKinds": 1, "InferencePool": 1, "NodePool": 0},
    "teams/shared": {"Namespace": 3, "ResourceQuota": 3},
    "three-regions": GLOBAL,
    "front-router": {"BackendService": 2, "FrontRouter": 1, "RegionNetworkEndpointGroup": 3},
    "nearest-region": DNS,
    "client-certificates": PROOFS,
    "internal-front": FLEET,
    "shared-adapters": {"Instance": 1, "PersistentVolume": 1, "PersistentVolumeClaim": 1},
    "lustre-adapters": {"Instance": 1, "PersistentVolume": 1, "PersistentVolumeClaim": 1},
    "calendar-mode": {"CalendarReservation": 1, "FutureReservation": 1, "ComputeClass": 2},
    "archive": {"Bucket": 3, "BucketIAMMember": 4, "Subscription": 2},
    "rdma": {"LeaderWorkerSet": 1, "ResourceClaimTemplate": 1},
    "batch-slices": {"ClusterQueue": 1, "JobSetOperator": 1, "PodMonitoring": 7},
    "cloud-run": {"CloudRunModel": 2, "Account": 4, "ServiceIamMember": 2},
    "clients": {"GCPTrafficExtension": 1, "Instance": 2, "Secret": 1},
    "device-claims": CLAIMS,
    "disaggregation": {"HorizontalPodAutoscaler": 2, "InferencePool": 1},
    "engines": {"InferencePool": 3, "HTTPRoute": 4, "HorizontalPodAutoscaler": 3},
    "existing-network/existing": {"Network": 0, "Subnetwork": 0, "Bucket": 1, "Cluster": 1},
    "from-zero": {"HorizontalPodAutoscaler": 1, "InferencePool": 1, "Rules": 1, "PoolFallback": 1},
    "guardrails/guarded": {"GCPTrafficExtension": 1, "NemoGuardrails": 2, "Template": 1},
    "image-models": {"HTTPRoute": 2, "HorizontalPodAutoscaler": 1, "InferencePool": 0},
    "kv-offload": {"CapacityBuffer": 1, "Instance": 1, "PersistentVolumeClaim": 1},
    "llm-d-router": {"InferenceObjective": 2, "InferencePool": 1, "CustomResourceDefinition": 2},
    "multi-host/slices": {"LeaderWorkerSet": 1, "MutatingWebhookConfiguration": 1},
    "queues": QUEUES,
    "schedule": {"HorizontalPodAutoscaler": 1, "InferencePool": 1, "Rules": 1},
    "sdxl": {"HTTPRoute": 2, "HealthCheckPolicy": 3, "InferencePool": 0},
    "streaming": STREAM,
    "tcpx": gpudirect(4),
    "tcpxo": gpudirect(8),
    "video": {"HTTPRoute": 2, "HealthCheckPolicy": 3, "InferencePool": 0},
    "vision-language": {"InferencePool": 1, "RouterNat": 1},
    "wide-ep": {"LeaderWorkerSet": 2, "ResourceClaimTemplate": 2, "ResourcePolicy": 1},
    "personalized-images": {"Instance": 1, "Disk": 2, "PersistentVolumeClaim": 3, "LocalQueue": 1},
    "batch": BATCH,
    "ray": {"RayCluster": 3, "RayClusterSet": 1, "InferencePool": 1},
}
"""Numbers of resources by example: its stack, below a folder of another name."""


def file_of(name: str) -> Path:
    """Return the stack file of an example of `ABOUT`."""
    folder, _, stack = name.rpartition("/")
    return EXAMPLES / (folder or stack) / f"Pulumi.{stack}.yaml"


def records_of(deployed: Deployed, name: str) -> Records:
    """Return what an example registers."""
    return deployed(parse(json.dumps(platform_of(file_of(name)))))


def is_of_google(resource: Registration) -> bool:
    """Return whether the provider `gcp` has a resource."""
    return resource.type.startswith("gcp:")


@pytest.mark.parametrize("name", ABOUT)
def test_an_example_has_what_it_is_about(deployed: Deployed, name: str) -> None:
    made = records_of(deployed, name).counts()
    assert {kind: made.get(kind, 0) for kind in ABOUT[name]} == ABOUT[name]


@pytest.mark.parametrize("name", ABOUT)
def test_the_provider_accepts_every_resource_of_an_example(deployed: Deployed, name: str) -> None:
    made = [each for each in records_of(deployed, name).registrations if is_of_google(each)]
    assert len(made) > 10
    failures = [each for one in made for each in validate_inputs(one.type, one.inputs)]
    # the stand-in does not compute every output
    assert [each for each in failures if not each.reason.endswith(", got null")] == []
