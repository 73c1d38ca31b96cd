"""Examples previewed with the real engine and the twin's providers: what each is about."""

import json
from collections import Counter

import pytest

from scripts.shared.scratch_project import scratch_project
from tests.platform.examples.test_examples import EXAMPLES, engine

pytestmark = pytest.mark.needs_tools

__all__ = ["engine"]

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
DNS = {"HealthCheck": 1, "RecordSet": 1, "RegionSecurityPolicy": 3, "RegionSslPolicy": 3}

STREAM = {
    "HorizontalPodAutoscaler": 3,
    "Subscription": 3,
    "SubscriptionIAMMember": 2,
    "Topic": 3,
    "TopicIAMMember": 3,
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

BATCH = {"Bucket": 3, "HorizontalPodAutoscaler": 3, "BucketIAMMember": 4}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("three-regions", GLOBAL),
        ("nearest-region", DNS),
        ("shared-adapters", {"Instance": 1, "PersistentVolume": 1, "PersistentVolumeClaim": 1}),
        ("streaming", STREAM),
        ("queues", QUEUES),
        ("batch", BATCH),
    ],
)
def test_an_example_previews_with_what_it_is_about(engine, tmp_path, name, expected):
    text = (EXAMPLES / name / f"Pulumi.{name}.yaml").read_text()
    project = scratch_project(tmp_path, name, text)
    words = ("-s", name, "--non-interactive")
    engine.run("stack", "init", *words, capture=True, project=project)
    ran = engine.run("preview", "--json", *words, capture=True, project=project)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    made = Counter(
        step["urn"].split("::")[2].rpartition(":")[2]
        for step in json.loads(ran.stdout)["steps"]
        if step["op"] == "create"
    )
    assert {kind: made[kind] for kind in expected} == expected
