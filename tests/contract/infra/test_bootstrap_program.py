"""The program makes a state bucket, keys, APIs, and CI identities that have no keys."""

from dataclasses import replace
from typing import Any

import pytest

from gke_inference.catalogue.versions import third_party_registries
from infra.bootstrap.program import BUCKET, prepare
from infra.bootstrap.roles import (
    APIGEE_ROLES,
    ARMOR_ROLES,
    BACKEND_ROLES,
    CERTIFICATE_ROLES,
    CLIENT_ROLES,
    DEPLOY_ROLES,
    FLEET_ROLES,
    FRONT_ROLES,
    HOSTNAME_ROLES,
    IMAGE_ROLES,
    PEOPLE_ROLES,
    PERSONAL_ROLES,
    PIPELINE_ROLES,
    PREVIEW_ROLES,
    SECRET_ROLE,
    SERVICES,
    STREAM_ROLES,
    TABLE_ROLES,
)
from infra.bootstrap.settings import Ci, Project, StackSettings
from tests.contract.recorder import Recorder

PROD = StackSettings("prod", "acme", "us-central1", Ci.parse("github:acme/inference"))
PROJECT = Project("acme-inference-prod", 141421356237, (PROD,))
POOL = (
    "principalSet://iam.googleapis.com/projects/141421356237/locations/global/"
    "workloadIdentityPools/gke-inference-ci"
)


@pytest.fixture
def engine_stand_in(recorder: Recorder) -> Recorder:
    account = {"member": "serviceAccount:ci", "name": "projects/p/serviceAccounts/ci"}
    recorder.outputs["gcp:serviceaccount/account:Account"] = account
    return recorder


def run(recorder: Recorder, project: Project, *, is_undone: bool = False) -> Recorder:
    recorder.run(lambda: prepare(project, is_undone=is_undone))
    return recorder


def roles(recorder: Recorder, type_name: str, prefix: str) -> set[str]:
    return {seen.inputs["role"] for seen in recorder.all(type_name) if seen.name.startswith(prefix)}


def test_the_state_bucket_has_versions_is_private_and_is_protected(engine_stand_in):
    bucket = run(engine_stand_in, PROJECT).named(BUCKET)
    assert bucket.inputs == {
        "forceDestroy": False,
        "location": "us-central1",
        "name": "acme-inference-prod-pulumi-state",
        "project": "acme-inference-prod",
        "publicAccessPrevention": "enforced",
        "uniformBucketLevelAccess": True,
        "versioning": {"enabled": True},
    }
    assert bucket.protected


def test_before_it_is_destroyed_the_bucket_loses_its_protection(engine_stand_in):
    bucket = run(engine_stand_in, PROJECT, is_undone=True).named(BUCKET)
    assert bucket.inputs["forceDestroy"] is True
    assert not bucket.protected


def test_settings_that_others_made_on_the_bucket_and_the_key_stay(engine_stand_in):
    seen = run(engine_stand_in, PROJECT)
    assert {"labels", "lifecycleRules", "location"} <= set(seen.named(BUCKET).ignored)
    assert {"labels", "rotationPeriod"} <= set(seen.named("key prod").ignored)


def test_each_stack_has_a_key_that_encrypts_its_secrets(engine_stand_in):
    staging = replace(PROD, stack="staging", location="europe-west4")
    seen = run(engine_stand_in, replace(PROJECT, stacks=(PROD, staging)))
    rings = seen.all("gcp:kms/keyRing:KeyRing")  # registered in any order
    assert {ring.inputs["location"] for ring in rings} == {"us-central1", "europe-west4"}
    assert len(rings) == 2
    keys = seen.all("gcp:kms/cryptoKey:CryptoKey")
    assert sorted(key.inputs["name"] for key in keys) == ["stack-prod", "stack-staging"]
    assert {key.inputs["purpose"] for key in keys} == {"ENCRYPT_DECRYPT"}


def test_keys_and_key_rings_stay_when_the_program_no_longer_has_them(engine_stand_in):
    seen = run(engine_stand_in, PROJECT)
    kept = {name for (_, name), request in seen.requests.items() if request.retainOnDelete}
    assert kept == {"key prod", "key-ring us-central1"}


def test_every_api_is_on_and_stays_on(engine_stand_in):
    services = run(engine_stand_in, PROJECT).all("gcp:projects/service:Service")
    assert {service.inputs["service"] for service in services} == set(SERVICES)
    assert {service.inputs["disableOnDestroy"] for service in services} == {False}


def test_the_apis_of_every_stack_are_on_once(engine_stand_in):
    services = ("networksecurity.googleapis.com", SERVICES[0])
    stacks = (replace(PROD, services=services), replace(PROD, stack="dev", services=services))
    seen = run(engine_stand_in, replace(PROJECT, stacks=stacks))
    names = [each.inputs["service"] for each in seen.all("gcp:projects/service:Service")]
    assert sorted(names) == sorted([*SERVICES, "networksecurity.googleapis.com"])


def test_ci_deploys_from_the_main_branch_only_and_has_no_key(engine_stand_in):
    seen = run(engine_stand_in, PROJECT)
    trusted = {
        grant.name: (grant.inputs["role"], grant.inputs["member"])
        for grant in seen.all("gcp:serviceaccount/iAMMember:IAMMember")
    }
    role = "roles/iam.workloadIdentityUser"
    main = "attribute.repository_ref/acme/inference@refs/heads/main"
    assert trusted == {
        "deploy prod iam.workloadIdentityUser": (role, f"{POOL}/{main}"),
        "preview prod iam.workloadIdentityUser": (
            role,
            f"{POOL}/attribute.repository/acme/inference",
        ),
    }
    assert "Key" not in seen.counts()


def test_tokens_of_other_repositories_are_refused(engine_stand_in):
    provider = run(engine_stand_in, PROJECT).named("identity-provider github")
    assert provider.inputs["attributeCondition"] == "assertion.repository == 'acme/inference'"
    assert provider.inputs["oidc"] == {"issuerUri": "https://token.actions.githubusercontent.com"}


def test_two_stacks_may_have_two_repositories(engine_stand_in):
    staging = replace(PROD, stack="staging", ci=Ci.parse("github:acme/next"))
    seen = run(engine_stand_in, replace(PROJECT, stacks=(PROD, staging)))
    provider = seen.named("identity-provider github")
    assert provider.inputs["attributeCondition"] == (
        "assertion.repository == 'acme/inference' || assertion.repository == 'acme/next'"
    )


def test_a_preview_may_change_nothing_but_the_lock_of_the_state(engine_stand_in):
    seen = run(engine_stand_in, PROJECT)
    assert roles(seen, "gcp:projects/iAMMember:IAMMember", "preview") == set(PREVIEW_ROLES)
    lock = seen.one("gcp:storage/bucketIAMMember:BucketIAMMember")
    assert lock.name == "preview prod storage.objectUser"
    assert lock.inputs["bucket"] == PROJECT.bucket
    assert lock.inputs["role"] == "roles/storage.objectUser"


@pytest.mark.parametrize("has_images", [False, True])
def test_a_deployment_has_the_roles_of_images_where_the_stack_has_images(
    engine_stand_in, has_images
):
    project = replace(PROJECT, stacks=(replace(PROD, has_images=has_images),))
    seen = run(engine_stand_in, project)
    wanted = set(DEPLOY_ROLES) | (set(IMAGE_ROLES) if has_images else set())
    assert roles(seen, "gcp:projects/iAMMember:IAMMember", "deploy") == wanted


def test_a_deployment_has_the_roles_of_records_where_the_stack_makes_them(engine_stand_in):
    project = replace(PROJECT, stacks=(replace(PROD, has_records=True),))
    seen = run(engine_stand_in, project)
    wanted = {*DEPLOY_ROLES, *HOSTNAME_ROLES}
    assert roles(seen, "gcp:projects/iAMMember:IAMMember", "deploy") == wanted


@pytest.mark.parametrize(
    ("needs", "more"),
    [
        ("has_apigee_apps", APIGEE_ROLES),
        ("has_armor", ARMOR_ROLES),
        ("has_backends", {*BACKEND_ROLES, SECRET_ROLE}),
        ("has_certificates", CERTIFICATE_ROLES),
        ("has_clients", {*CLIENT_ROLES, SECRET_ROLE}),
        ("has_fleet", FLEET_ROLES),
        ("has_people", PEOPLE_ROLES),
        ("has_front", FRONT_ROLES),
        ("has_personal_images", PERSONAL_ROLES),
        ("has_pipelines", PIPELINE_ROLES),
        ("has_streams", STREAM_ROLES),
        ("has_tables", TABLE_ROLES),
    ],
)
def test_a_deployment_has_the_roles_of_what_the_stack_has(engine_stand_in, needs, more):
    has: dict[str, Any] = {needs: True}
    project = replace(PROJECT, stacks=(replace(PROD, **has),))
    seen = run(engine_stand_in, project)
    assert roles(seen, "gcp:projects/iAMMember:IAMMember", "deploy") == {*DEPLOY_ROLES, *more}


SECRETS = "projects/141421356237/secrets/"


@pytest.mark.parametrize(
    ("needs", "parts"),
    [
        (
            {"upstream_secrets": ("github", "hub")},
            [f"resource.name == '{SECRETS}github'", f"resource.name == '{SECRETS}hub'"],
        ),
        (
            {"has_clients": True, "has_backends": True, "upstream_secrets": ("hub",)},
            [
                "resource.type == 'cloudresourcemanager.googleapis.com/Project'",
                f"resource.name.startsWith('{SECRETS}acme-prod-')",
                f"resource.name == '{SECRETS}hub'",
            ],
        ),
    ],
)
def test_a_deployment_manages_only_the_secrets_of_its_stack(engine_stand_in, needs, parts):
    seen = run(engine_stand_in, replace(PROJECT, stacks=(replace(PROD, **needs),)))
    (granted,) = [
        each
        for each in seen.all("gcp:projects/iAMMember:IAMMember")
        if each.inputs["role"].startswith("roles/secretmanager.")
    ]
    assert granted.name == "deploy prod secrets"
    assert granted.inputs["role"] == "roles/secretmanager.admin"
    assert granted.inputs["condition"]["expression"] == " || ".join(parts)


def test_the_condition_for_secrets_has_no_more_operators_than_google_allows():
    needs = {"has_clients": True, "upstream_secrets": third_party_registries()}
    condition = PROJECT.secret_condition(replace(PROD, **needs))
    assert condition.count("||") <= 12


def test_a_role_that_two_parts_of_a_stack_need_is_granted_once(engine_stand_in):
    needs = {"has_backends": True, "has_personal_images": True, "has_streams": True}
    project = replace(PROJECT, stacks=(replace(PROD, **needs),))
    seen = run(engine_stand_in, project)
    names = [
        each.name
        for each in seen.all("gcp:projects/iAMMember:IAMMember")
        if each.name.startswith("deploy prod ")
    ]
    assert names.count("deploy prod run.admin") == names.count("deploy prod pubsub.admin") == 1


def test_without_a_repository_no_identity_is_made(engine_stand_in):
    seen = run(engine_stand_in, replace(PROJECT, stacks=(replace(PROD, ci=None),)))
    assert seen.counts() == {"Bucket": 1, "CryptoKey": 1, "KeyRing": 1, "Service": len(SERVICES)}


SEARCH = replace(PROD, stack="prod-search", layer="serving", platform="prod", pulumi_stack="search")


def test_the_identity_of_a_platform_does_not_watch_models(engine_stand_in):
    project = replace(PROJECT, stacks=(replace(PROD, layer="platform"),))
    found = roles(run(engine_stand_in, project), "gcp:projects/iAMMember:IAMMember", "deploy prod ")
    assert found == set(DEPLOY_ROLES) - {"roles/monitoring.editor"}


def test_the_identity_of_a_serving_stack_reaches_clusters_and_watches_models(engine_stand_in):
    project = replace(PROJECT, stacks=(replace(PROD, layer="platform"), SEARCH))
    made = run(engine_stand_in, project)
    kind = "gcp:projects/iAMMember:IAMMember"
    assert roles(made, kind, "deploy prod-search ") == {
        "roles/container.clusterViewer",
        "roles/monitoring.editor",
    }
    assert roles(made, kind, "preview prod-search ") == {
        "roles/container.viewer",
        "roles/monitoring.viewer",
    }


def test_the_identity_of_a_serving_stack_writes_its_own_state_and_reads_its_platforms(
    engine_stand_in,
):
    project = replace(PROJECT, stacks=(replace(PROD, layer="platform"), SEARCH))
    made = run(engine_stand_in, project)
    grants = {
        seen.inputs["role"]: seen.inputs.get("condition", {}).get("expression", "")
        for seen in made.all("gcp:storage/bucketIAMMember:BucketIAMMember")
        if seen.name.startswith("deploy prod-search ")
    }
    assert grants["roles/storage.objectViewer"] == ""
    writes = grants["roles/storage.objectUser"]
    start = "projects/_/buckets/acme-inference-prod-pulumi-state/objects/.pulumi/"
    assert f"resource.name.startsWith('{start}stacks/gke-inference/search.')" in writes
    assert writes.count("search") == writes.count("startsWith") == 4
    keys = made.all("gcp:kms/cryptoKeyIAMMember:CryptoKeyIAMMember")
    assert {
        seen.inputs["role"] for seen in keys if seen.name.startswith("deploy prod-search ")
    } == {
        "roles/cloudkms.cryptoKeyDecrypter",
        "roles/cloudkms.cryptoKeyEncrypterDecrypter",
    }
