"""The job that moves weights: its identity, its objects, and the disk it fills."""

import json
from typing import Any

import pulumi
import pytest

from gke_inference import WeightsJob
from gke_inference.catalogue.versions import base_image

JOB = "kubernetes:batch/v1:Job"
DISK = "gcp:compute/disk:Disk"
SNAPSHOT = "gcp:compute/snapshot:Snapshot"
MEMBER = (
    "principal://iam.googleapis.com/projects/42/locations/global/workloadIdentityPools/"
    "acme.svc.id.goog/subject/ns/models/sa/weights-llama"
)
ARGS: Any = {
    "buckets": ["acme-models-us-east5", "acme-models-us-west1"],
    "folder": "llama",
    "job_name": "weights-llama",
    "namespace": "models",
    "project": "acme",
    "project_number": "42",
    "program": {"requirements.lock": "requests==1", "workloads/transfer/job.py": "pass\n"},
    "repository": "acme/llama",
    "scratch_gib": 40,
    "token_secret": "hub-token",
}
DISK_ARGS = {
    "disk_name": "weights-llama-fill",
    "size_gib": 50,
    "snapshot_name": "llama-v1",
    "zone": "us-east5-a",
}


def made(recorder, **change):
    def program():
        args: Any = {**ARGS, **change}
        built = WeightsJob("llama", args)
        return pulumi.Output.all(built.job_name, built.principal, built.snapshot)

    return recorder.run(program)


def pod(recorder):
    return recorder.one(JOB).inputs["spec"]["template"]["spec"]


def test_its_identity_writes_its_buckets_and_reads_one_secret_and_nothing_else(recorder):
    assert made(recorder) == ["weights-llama", MEMBER, None]
    grants = [
        (each.inputs["bucket"], each.inputs["role"], each.inputs["member"])
        for each in recorder.all("gcp:storage/bucketIAMMember:BucketIAMMember")
    ]
    assert sorted(grants) == [
        ("acme-models-us-east5", "roles/storage.objectUser", MEMBER),
        ("acme-models-us-west1", "roles/storage.objectUser", MEMBER),
    ]
    secret = recorder.one("gcp:secretmanager/secretIamMember:SecretIamMember").inputs
    assert (secret["secretId"], secret["role"]) == (
        "hub-token",
        "roles/secretmanager.secretAccessor",
    )
    assert recorder.all("gcp:projects/iAMMember:IAMMember") == []
    account = recorder.one("kubernetes:core/v1:ServiceAccount").inputs
    assert account["metadata"] == {"name": "weights-llama", "namespace": "models"}
    assert pod(recorder)["serviceAccountName"] == "weights-llama"


def test_without_a_secret_it_may_read_none(recorder):
    change: Any = {key: value for key, value in ARGS.items() if key != "token_secret"}

    def program():
        return WeightsJob("llama", change).job_name

    recorder.run(program)
    assert recorder.all("gcp:secretmanager/secretIamMember:SecretIamMember") == []


def test_its_program_and_what_it_does_are_files_without_a_secret(recorder):
    made(recorder)
    files = recorder.one("kubernetes:core/v1:ConfigMap").inputs["data"]
    assert sorted(files) == ["requirements.lock", "spec.json", "workloads.transfer.job.py"]
    assert json.loads(files["spec.json"]) == {
        "buckets": ARGS["buckets"],
        "exclude": [],
        "folder": "llama",
        "makes_current": False,
        "project": "acme",
        "repository": "acme/llama",
        "revision": "main",
        "target": "/work/model",
        "token_secret": "hub-token",
        "version": None,
    }
    items = pod(recorder)["volumes"][0]["configMap"]["items"]
    assert {"key": "workloads.transfer.job.py", "path": "workloads/transfer/job.py"} in items


def test_its_container_is_unprivileged_pinned_and_installs_by_hash(recorder):
    made(recorder)
    (container,) = pod(recorder)["containers"]
    assert container["image"] == base_image("python").reference
    assert "@sha256:" in container["image"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert pod(recorder)["securityContext"]["runAsNonRoot"]
    assert not pod(recorder)["automountServiceAccountToken"]
    script = container["command"][2]
    assert "--require-hashes" in script
    assert script.endswith("exec python3 -m workloads.transfer /opt/gke-inference/spec.json")


def test_an_image_with_the_program_installs_nothing(recorder):
    made(recorder, image="example.com/weights:1", program={})
    (container,) = pod(recorder)["containers"]
    assert container["command"][2].startswith("exec ")


def test_its_node_is_its_own_and_goes_with_it(recorder):
    made(recorder, node_service_account="nodes@acme.iam.gserviceaccount.com")
    (compute_class,) = [each for each in recorder.registrations if "ComputeClass" in each.type]
    spec = compute_class.inputs["spec"]
    assert [rule["machineFamily"] for rule in spec["priorities"]] == ["c3", "c3d"]
    assert spec["whenUnsatisfiable"] == "DoNotScaleUp"
    assert spec["nodePoolConfig"]["serviceAccount"] == "nodes@acme.iam.gserviceaccount.com"
    assert pod(recorder)["nodeSelector"] == {"cloud.google.com/compute-class": "weights-llama"}


def test_it_may_start_again_and_ends_after_its_hours(recorder):
    made(recorder, hours=3)
    spec = recorder.one(JOB).inputs["spec"]
    assert (spec["activeDeadlineSeconds"], spec["backoffLimit"]) == (10_800, 6)
    assert pod(recorder)["restartPolicy"] == "Never"


def test_a_disk_is_writable_for_the_job_and_its_snapshot_comes_after_it(recorder):
    assert made(recorder, disk=DISK_ARGS)[2] == "llama-v1"
    disk = recorder.one(DISK).inputs
    assert (disk["accessMode"], disk["type"], disk["zone"]) == (
        "READ_WRITE_SINGLE",
        "hyperdisk-ml",
        "us-east5-a",
    )
    snapshot = recorder.one(SNAPSHOT).inputs
    assert snapshot["sourceDisk"] == "projects/acme/zones/us-east5-a/disks/weights-llama-fill"
    assert snapshot["name"] == "llama-v1"
    order = [each.type for each in recorder.registrations]
    assert order.index(DISK) < order.index(JOB) < order.index(SNAPSHOT)
    claim = pod(recorder)["volumes"][2]["persistentVolumeClaim"]["claimName"]
    assert claim == "weights-llama-disk"
    made_claim = recorder.one("kubernetes:core/v1:PersistentVolumeClaim").inputs
    assert made_claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    files = recorder.one("kubernetes:core/v1:ConfigMap").inputs["data"]
    assert json.loads(files["spec.json"])["target"] == "/mnt/weights"


REFUSES = {
    "no bucket": ({"buckets": []}, "buckets", "must be different buckets, got []"),
    "a bucket twice": ({"buckets": ["a", "a"]}, "buckets", "must be different buckets"),
    "no program": ({"program": {}}, "program", "must be set without 'image', got none"),
    "a small volume": ({"scratch_gib": 1}, "scratchGib", "must be 10 to 65536, got 1"),
    "a week": ({"hours": 168}, "hours", "must be 1 to 48, got 168"),
    "a name with a capital": ({"job_name": "Weights"}, "jobName", ""),
}


@pytest.mark.parametrize("what", REFUSES)
def test_it_refuses(recorder, what):
    change, path, words = REFUSES[what]
    with pytest.raises(pulumi.InputPropertyError) as error:
        made(recorder, **change)
    assert error.value.property_path == path
    assert words in error.value.reason
