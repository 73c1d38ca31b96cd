"""Whatever a component sends is checked against the schema of Google's own provider."""

from typing import Any

import pytest

import gke_inference
from gke_inference import (
    Budget,
    ModelBucket,
    ModelDisk,
    Network,
    NodeImageCache,
    PersonalFront,
    WorkloadIdentity,
)
from twin.providers.gcp.checks.validate import validate_inputs

CLUSTER: dict[str, Any] = {
    "cluster_name": "acme-prod",
    "location": "us-central1",
    "mode": "standard",
    "network": "projects/acme/global/networks/acme",
    "pods_range": "pods",
    "project": "acme-prod-1",
    "services_range": "services",
    "subnetwork": "acme-us-central1-nodes",
}
POOL: dict[str, Any] = {
    "cluster": "acme-prod",
    "location": "us-central1",
    "max_nodes": 2,
    "node_service_account": "nodes@acme.iam.gserviceaccount.com",
    "pool_name": "pool",
    "project": "acme-prod-1",
}
V6E = {"accelerator": "tpu-v6e", "topology": "2x2"}
RANGES = {
    "nodes": "10.0.0.0/20",
    "pods": "10.64.0.0/14",
    "proxies": "10.9.0.0/23",
    "services": "10.8.0.0/20",
}
RESERVED = {"reservation": "r", "reservation_zones": ["us-central1-b"]}
RUNGS: dict[str, dict[str, Any]] = {
    "on-demand": {**V6E, "provisioning": "on-demand"},
    "spot": {**V6E, "provisioning": "spot"},
    "flex-start": {"accelerator": "nvidia-l4", "count": 1, "provisioning": "flex-start"},
    "reservation": {**V6E, "provisioning": "reservation", **RESERVED},
    "calendar": {**V6E, "provisioning": "calendar", **RESERVED, "allow_unlisted_zones": True},
    "two hosts": {
        "accelerator": "tpu7x",
        "topology": "2x2x2",
        "provisioning": "on-demand",
        "zones": ["us-central1-c"],
    },
    "a slice": {**V6E, "topology": "2x4", "machine_type": "ct6e-standard-4t"}
    | {"provisioning": "spot", "zones": ["us-central1-b"]},
    "eight H100": {"accelerator": "nvidia-h100-80gb", "count": 8, "provisioning": "spot"},
    "one L4": {"accelerator": "nvidia-l4", "count": 1, "provisioning": "on-demand"},
}


def failures(recorder, component, args):
    found: Any = component
    recorder.run(lambda: found("it", args).urn)
    sent = [seen for seen in recorder.registrations if seen.type.startswith("gcp:")]
    assert sent
    return {
        f"{seen.type} {seen.name}": [
            str(failure) for failure in validate_inputs(seen.type, seen.inputs)
        ]
        for seen in sent
        if validate_inputs(seen.type, seen.inputs)
    }


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"mode": "autopilot"},
        {"location": "us-central1-a", "node_zones": ["us-central1-b"]},
        {"auto_provisioning_limits": {"cpu": 100, "tpu-v6e-slice": 8}},
        {"authorized_networks": {"office": "203.0.113.0/24"}, "kms_key": "k"},
    ],
    ids=["standard", "autopilot", "zonal", "auto-provisioning", "IP endpoint and key"],
)
def test_a_cluster_sends_what_the_provider_takes(recorder, change):
    assert failures(recorder, gke_inference.InferenceCluster, {**CLUSTER, **change}) == {}


@pytest.mark.parametrize("rung", RUNGS.values(), ids=RUNGS)
def test_a_pool_sends_what_the_provider_takes(recorder, rung):
    args = {**POOL, "rung": rung, "compute_class": "chat", "image_cache": "projects/p/global/i"}
    assert failures(recorder, gke_inference.AcceleratorPool, args) == {}


def test_a_queued_pool_sends_what_the_provider_takes(recorder):
    args = {**POOL, "rung": RUNGS["flex-start"], "queued": True}
    assert failures(recorder, gke_inference.AcceleratorPool, args) == {}


OTHERS: list[tuple[Any, dict[str, Any]]] = [
    (
        Budget,
        {
            "billing_account": "01A2B3-4C5D6E-7F8A9B",
            "billing_admins": False,
            "channels": ["projects/p/notificationChannels/1"],
            "label": {"env": "prod"},
            "monthly_usd": 100,
            "project_number": "1",
            "title": "acme prod",
            "topic": "projects/p/topics/bills",
        },
    ),
    (Network, {"network_name": "acme", "regions": {"us-central1": RANGES}, "mtu": 8896}),
    (
        ModelBucket,
        {
            "bucket_name": "acme-weights",
            "location": "us-central1",
            "project": "acme-prod-1",
            "cache_zones": ["us-central1-a"],
            "folders": False,
            "versioning": True,
        },
    ),
    (
        ModelDisk,
        {
            "claim_name": "c",
            "disk_name": "d",
            "namespace": "n",
            "project": "acme-prod-1",
            "size_gib": 100,
            "snapshot": "s",
            "throughput_mib_per_s": 500,
            "zones": ["us-central1-a", "us-central1-b"],
        },
    ),
    (
        NodeImageCache,
        {"image_name": "i", "project": "acme-prod-1", "raw_disk": "gs://b/i.tar.gz"},
    ),
    (
        WorkloadIdentity,
        {
            "namespace": "n",
            "project": "acme-prod-1",
            "project_number": "1",
            "service_account_name": "s",
            "bucket_roles": {"w": {"bucket": "b", "access": "read"}},
            "project_roles": ["roles/monitoring.viewer"],
            "secrets": ["hf-token"],
        },
    ),
    (
        PersonalFront,
        {
            "account_id": "acme-personal",
            "bucket_name": "acme-personal",
            "callback_hosts": ["app.example.com"],
            "callers": ["serviceAccount:app@acme-prod-1.iam.gserviceaccount.com"],
            "project": "acme-prod-1",
            "project_number": "1",
            "region": "us-central1",
            "service_name": "acme-personal",
            "worker": "principal://iam.googleapis.com/worker",
        },
    ),
]


@pytest.mark.parametrize(("component", "args"), OTHERS, ids=lambda v: getattr(v, "__name__", ""))
def test_the_other_components_send_what_the_provider_takes(recorder, component, args):
    assert failures(recorder, component, args) == {}


def test_a_property_the_provider_does_not_know_would_be_found():
    assert validate_inputs("gcp:storage/bucket:Bucket", {"location": "US", "colour": "blue"})
