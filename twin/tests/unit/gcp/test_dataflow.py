"""Jobs of Dataflow: what the twin reports of one, and what Google would refuse."""

import json
from typing import Any

import pytest

from twin.providers.gcp.resources.dataflow import JOB
from twin.tests.unit.gcp.conftest import Cloud, Made, Refused

BUCKET = "gcp:storage/bucket:Bucket"
OBJECT = "gcp:storage/bucketObject:BucketObject"
ACCOUNT = "gcp:serviceaccount/account:Account"
GRANT = "gcp:projects/iAMMember:IAMMember"
EMAIL = "worker@acme.iam.gserviceaccount.com"
SPEC: dict[str, Any] = {
    "image": "us-central1-docker.pkg.dev/acme/engines/pipelines",
    "metadata": {"parameters": [{"name": "settings"}, {"name": "extra", "isOptional": True}]},
    "sdkInfo": {"language": "PYTHON"},
}


def world(cloud: Cloud, *, spec: Any = SPEC, role: str = "roles/dataflow.worker") -> None:
    """Create what a job needs: network, bucket, template, account and its role."""
    cloud.create("gcp:compute/network:Network", "net", {"name": "net"})
    for region, ranges in (("us-central1", "10.0.0.0/20"), ("us-east1", "10.1.0.0/20")):
        cloud.create(
            "gcp:compute/subnetwork:Subnetwork",
            region,
            {
                "name": f"nodes-{region}",
                "network": "net",
                "region": region,
                "ipCidrRange": ranges,
                "privateIpGoogleAccess": region == "us-central1",
            },
        )
    cloud.create(BUCKET, "acme-pipeline", {"name": "acme-pipeline", "location": "US-CENTRAL1"})
    content = spec if isinstance(spec, str) else json.dumps(spec)
    cloud.create(OBJECT, "spec", {"bucket": "acme-pipeline", "name": "t.json", "content": content})
    cloud.create(ACCOUNT, "worker", {"accountId": "worker"})
    member = f"serviceAccount:{EMAIL}"
    cloud.create(GRANT, "worker", {"project": "acme", "member": member, "role": role})


def job(cloud: Cloud, name: str = "payments", **changed: Any) -> Made:
    inputs = {
        "name": name,
        "region": "us-central1",
        "containerSpecGcsPath": "gs://acme-pipeline/t.json",
        "ipConfiguration": "WORKER_IP_PRIVATE",
        "machineType": "n1-standard-2",
        "maxWorkers": 3,
        "numWorkers": 1,
        "onDelete": "drain",
        "parameters": {"settings": "{}"},
        "serviceAccountEmail": EMAIL,
        "subnetwork": "regions/us-central1/subnetworks/nodes-us-central1",
        "tempLocation": "gs://acme-pipeline/temporary",
        **changed,
    }
    return cloud.create(
        JOB, name, {key: value for key, value in inputs.items() if value is not None}
    )


def test_a_job_is_reported_as_running_and_can_be_deleted(cloud: Cloud) -> None:
    world(cloud)
    made = job(cloud)
    assert (made.outputs["state"], made.outputs["type"]) == (
        "JOB_STATE_RUNNING",
        "JOB_TYPE_STREAMING",
    )
    assert made.outputs["jobId"] == made.id
    cloud.delete(made)
    assert job(cloud).id


def test_an_active_job_has_its_name_alone(cloud: Cloud) -> None:
    world(cloud)
    job(cloud)
    with pytest.raises(Refused, match="The job payments already exists"):
        cloud.create(JOB, "other", job_inputs("payments"))


def job_inputs(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "region": "us-central1",
        "containerSpecGcsPath": "gs://acme-pipeline/t.json",
        "parameters": {"settings": "{}"},
    }


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"name": "Payments"}, r"name: must be \[a-z\]"),
        ({"numWorkers": 4}, r"numWorkers: must be at most maxWorkers \(3\), got 4"),
        ({"maxWorkers": 1001}, "maxWorkers: must be 1 to 1000, got 1001"),
        ({"machineType": "n1-standard-3"}, "Machine type n1-standard-3 does not exist"),
        ({"tempLocation": "acme-pipeline"}, "tempLocation: must be gs://BUCKET/FOLDER"),
        ({"tempLocation": "gs://other/temporary"}, "The specified bucket does not exist"),
        ({"containerSpecGcsPath": "gs://acme-pipeline/u.json"}, "Unable to open template file"),
        ({"parameters": None}, "Missing required parameter: settings"),
        ({"parameters": {"settings": "", "more": ""}}, "Unrecognized parameter: more"),
        (
            {"subnetwork": "regions/us-east1/subnetworks/nodes-us-east1"},
            "is in region us-east1, not in us-central1",
        ),
        (
            {"subnetwork": "regions/us-east1/subnetworks/nodes-us-east1", "region": "us-east1"},
            "must have Private Google Access",
        ),
        ({"serviceAccountEmail": "no@acme.iam.gserviceaccount.com"}, "no@acme"),
    ],
)
def test_what_google_would_refuse_is_refused(
    cloud: Cloud, changed: dict[str, Any], message: str
) -> None:
    world(cloud)
    with pytest.raises(Refused, match=message):
        job(cloud, **changed)


def test_a_worker_needs_its_role(cloud: Cloud) -> None:
    world(cloud, role="roles/viewer")
    with pytest.raises(Refused, match=r"does not have roles/dataflow\.worker"):
        job(cloud)


@pytest.mark.parametrize("spec", ["{", {"image": "a"}, {**SPEC, "sdkInfo": {"language": "R"}}])
def test_a_template_must_be_a_container_spec(cloud: Cloud, spec: Any) -> None:
    world(cloud, spec=spec)
    with pytest.raises(Refused, match="is not a container spec of a template"):
        job(cloud)
