from typing import Any

import pulumi
import pulumi_gcp
import pulumi_kubernetes
import pytest

from gke_inference import WorkloadIdentity

ACCOUNT = "kubernetes:core/v1:ServiceAccount"
MEMBER = (
    "principal://iam.googleapis.com/projects/123/locations/global/workloadIdentityPools/"
    "acme.svc.id.goog/subject/ns/serving/sa/llama"
)
ARGS = {
    "namespace": "serving",
    "project": "acme",
    "project_number": "123",
    "service_account_name": "llama",
}


def made(args: Any, opts: pulumi.ResourceOptions | None = None) -> WorkloadIdentity:
    return WorkloadIdentity("llama", args, opts)


def run(recorder, **change):
    def program():
        built = made({**ARGS, **change})
        return pulumi.Output.all(built.service_account_name, built.principal)

    return recorder.run(program)


def test_an_identity_without_roles_can_do_nothing(recorder):
    assert run(recorder) == ["llama", MEMBER]
    assert recorder.counts() == {"WorkloadIdentity": 1, "ServiceAccount": 1}
    assert recorder.one(ACCOUNT).inputs["metadata"] == {"name": "llama", "namespace": "serving"}
    assert recorder.one(ACCOUNT).inputs["automountServiceAccountToken"] is False


def test_roles_are_for_the_buckets_that_are_named(recorder):
    run(
        recorder,
        bucket_roles={
            "weights": {"bucket": "acme-weights", "access": "read"},
            "cache": {"bucket": "acme-cache", "access": "write"},
        },
    )
    grants = recorder.all("gcp:storage/bucketIAMMember:BucketIAMMember")
    assert {grant.name: grant.inputs for grant in grants} == {
        "llama-bucket-cache": {
            "bucket": "acme-cache",
            "member": MEMBER,
            "role": "roles/storage.objectUser",
        },
        "llama-bucket-weights": {
            "bucket": "acme-weights",
            "member": MEMBER,
            "role": "roles/storage.objectViewer",
        },
    }


def test_project_roles_and_secrets_are_granted_one_by_one(recorder):
    run(recorder, project_roles=["roles/monitoring.viewer"], secrets=["hf-token"])
    grant = recorder.one("gcp:projects/iAMMember:IAMMember")
    assert grant.name == "llama-project-monitoring-viewer"
    assert grant.inputs["role"] == "roles/monitoring.viewer"
    secret = recorder.one("gcp:secretmanager/secretIamMember:SecretIamMember")
    assert secret.inputs["role"] == "roles/secretmanager.secretAccessor"
    assert secret.inputs["secretId"] == "hf-token"


def test_both_providers_reach_the_children(recorder):
    def program():
        cluster = pulumi_kubernetes.Provider("east", kubeconfig="{}")
        cloud = pulumi_gcp.Provider("acme", project="acme")
        opts = pulumi.ResourceOptions(providers=[cluster, cloud])
        roles = {"weights": {"bucket": "acme-weights", "access": "read"}}
        return made({**ARGS, "bucket_roles": roles}, opts).principal

    recorder.run(program)
    assert "east" in recorder.one(ACCOUNT).provider
    grant = recorder.one("gcp:storage/bucketIAMMember:BucketIAMMember")
    assert "acme" in grant.provider
    assert grant.parent.endswith("gke-inference:index:WorkloadIdentity::llama")


REFUSED = {
    "an access that does not exist": (
        {"bucket_roles": {"weights": {"bucket": "b", "access": "admin"}}},
        "bucketRoles.weights.access",
        "must be one of read, write, got 'admin'",
    ),
    "the owner of the project": (
        {"project_roles": ["roles/owner"]},
        "projectRoles",
        "got 'roles/owner'",
    ),
    "a role without its path": ({"project_roles": ["viewer"]}, "projectRoles", "got 'viewer'"),
    "a namespace with a capital": ({"namespace": "Serving"}, "namespace", "got 'Serving'"),
    "no name": ({"service_account_name": ""}, "serviceAccountName", "1 to 63 characters"),
}


@pytest.mark.parametrize(("change", "path", "words"), REFUSED.values(), ids=REFUSED)
def test_a_broken_rule_is_refused(recorder, change, path, words):
    with pytest.raises(pulumi.InputPropertyError) as refused:
        run(recorder, **change)
    assert refused.value.property_path == path
    assert words in refused.value.reason
    assert recorder.all(ACCOUNT) == []
