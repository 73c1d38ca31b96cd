"""The components that deliver images: repository, builds, attestations, admission."""

import json
import os
import re
import subprocess
from typing import Any

import pulumi
import pytest

from gke_inference import (
    EngineRepository,
    ImageAdmission,
    ImageAttestor,
    ImageBuild,
    ImageBuilder,
    PullThrough,
)
from gke_inference.catalogue.versions import Build, Image, builds
from gke_inference.images.build_steps import BuildError, Target, build_request, steps
from twin.providers.gcp.checks.validate import validate_inputs

KEY_VERSION = "gcp:kms/getKMSCryptoKeyVersion:getKMSCryptoKeyVersion"
VERSION = "projects/acme/locations/us-east5/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1"
PEM = "-----BEGIN PUBLIC KEY-----\nMFkw\n-----END PUBLIC KEY-----\n"
US, EU = "us-east5-docker.pkg.dev/acme/engines", "europe-west4-docker.pkg.dev/acme/engines"
SOURCE = "projects/acme/locations/us-east5/connections/forge/repositories/platform"
REPOSITORY: dict[str, Any] = {"location": "us-east5", "project": "acme", "repository_id": "engines"}
PULLS: dict[str, Any] = {
    "locations": ["us-east5", "europe-west4"],
    "project": "acme",
    "project_number": "42",
    "registries": ["docker.io", "ghcr.io"],
    "repository_prefix": "up",
}
ATTESTOR = {"attestor_name": "acme-prod-images", "location": "us-east5", "project": "acme"}
BUILD = {
    "builder": "images@acme.iam.gserviceaccount.com",
    "images": ["vllm_tpu"],
    "location": "us-east5",
    "project": "acme",
    "repositories": [US, EU],
    "source_repository": SOURCE,
}
ADMISSION = {
    "attestors": ["projects/acme/attestors/acme-prod-images"],
    "clusters": ["us-east5.acme-prod"],
    "project": "acme",
}


def target(**changed):
    base = Image("docker.io/library/python", "3.12.15", "sha256:" + "1" * 64)
    build = Build("vllm_tpu", "vllm-tpu", base, "bases.python", "0.32.0")
    usual: dict[str, Any] = {"build": build, "repositories": (US, EU), "revision": "abc123"}
    return Target(**usual | changed)


def scripts(**changed):
    return {step.id: step.script for step in steps(target(**changed))}


def sent(recorder, component, args):
    recorder.run(lambda: component("it", args).urn)
    return [seen for seen in recorder.registrations if seen.type.startswith("gcp:")]


def test_tags_of_a_repository_never_move_and_its_images_are_scanned(recorder):
    sent(recorder, EngineRepository, {**REPOSITORY, "writers": ["serviceAccount:b@x"]})
    made = recorder.one("gcp:artifactregistry/repository:Repository").inputs
    assert made["dockerConfig"] == {"immutableTags": True}
    assert made["vulnerabilityScanningConfig"] == {"enablementConfig": "INHERITED"}
    assert made["cleanupPolicies"] == [
        {
            "action": "DELETE",
            "condition": {"olderThan": "2592000s", "tagState": "UNTAGGED"},
            "id": "untagged",
        }
    ]
    grant = recorder.one("gcp:artifactregistry/repositoryIamMember:RepositoryIamMember").inputs
    assert (grant["role"], grant["member"]) == (
        "roles/artifactregistry.writer",
        "serviceAccount:b@x",
    )


def test_a_repository_says_what_references_begin_with(recorder):
    component: Any = EngineRepository
    assert recorder.run(lambda: component("it", REPOSITORY).url) == US


def test_a_registry_has_a_remote_repository_in_each_region(recorder):
    component: Any = PullThrough
    assert recorder.run(lambda: component("it", PULLS).urls) == {
        f"{region}/{registry}": f"{region}-docker.pkg.dev/acme/up-{short}"
        for region in PULLS["locations"]
        for registry, short in {"docker.io": "docker-io", "ghcr.io": "ghcr-io"}.items()
    }
    made = recorder.all("gcp:artifactregistry/repository:Repository")
    assert {each.inputs["mode"] for each in made} == {"REMOTE_REPOSITORY"}
    assert [
        each.inputs["remoteRepositoryConfig"]["dockerRepository"]
        for each in made
        if each.inputs["location"] == "us-east5"
    ] == [
        {"publicRepository": "DOCKER_HUB"},
        {"customRepository": {"uri": "https://ghcr.io"}},
    ]
    assert not recorder.all("gcp:secretmanager/secretIamMember:SecretIamMember")


def test_a_cache_keeps_the_newest_versions_of_an_image_and_forgets_the_others(recorder):
    sent(recorder, PullThrough, {**PULLS, "keep_days": 30})
    for made in recorder.all("gcp:artifactregistry/repository:Repository"):
        assert made.inputs["cleanupPolicies"] == [
            {"action": "DELETE", "condition": {"olderThan": "2592000s"}, "id": "old"},
            {"action": "KEEP", "id": "newest", "mostRecentVersions": {"keepCount": 3}},
        ]


def test_credentials_are_a_secret_that_the_registrys_agent_may_read_first(recorder):
    login = {"username": "acme", "secret": "projects/acme/secrets/hub/versions/3"}
    sent(recorder, PullThrough, {**PULLS, "credentials": {"docker.io": login}})
    grant = recorder.one("gcp:secretmanager/secretIamMember:SecretIamMember").inputs
    assert (grant["secretId"], grant["role"], grant["member"]) == (
        "projects/acme/secrets/hub",
        "roles/secretmanager.secretAccessor",
        "serviceAccount:service-42@gcp-sa-artifactregistry.iam.gserviceaccount.com",
    )
    identity = recorder.one("gcp:projects/serviceIdentity:ServiceIdentity").inputs
    assert identity["service"] == "artifactregistry.googleapis.com"
    found = {
        each.inputs["repositoryId"]: each.inputs["remoteRepositoryConfig"].get(
            "upstreamCredentials"
        )
        for each in recorder.all("gcp:artifactregistry/repository:Repository")
    }
    assert found == {
        "up-docker-io": {
            "usernamePasswordCredentials": {
                "passwordSecretVersion": login["secret"],
                "username": "acme",
            }
        },
        "up-ghcr-io": None,
    }


@pytest.mark.parametrize(
    ("component", "args", "message"),
    [
        (PullThrough, {**PULLS, "registries": ["https://ghcr.io"]}, "must be a host name"),
        (PullThrough, {**PULLS, "repository_prefix": "Up"}, "must be lowercase"),
        (PullThrough, {**PULLS, "keep_days": 0}, "must be 1 to 3650, got 0"),
        (
            PullThrough,
            {
                **PULLS,
                "credentials": {
                    "quay.io": {"username": "a", "secret": "projects/p/secrets/s/versions/1"}
                },
            },
            r"must be for one of docker\.io, ghcr\.io, got 'quay\.io'",
        ),
        (
            PullThrough,
            {**PULLS, "credentials": {"ghcr.io": {"username": "a", "secret": "s"}}},
            "must be projects/PROJECT/secrets/SECRET/versions/VERSION, got 's'",
        ),
        (EngineRepository, {**REPOSITORY, "repository_id": "Engines"}, "lowercase"),
        (EngineRepository, {**REPOSITORY, "untagged_days": 0}, "must be 1 to 3650, got 0"),
        (ImageAdmission, {**ADMISSION, "attestors": []}, "must have at least 1 entry, got 0"),
        (ImageAdmission, {**ADMISSION, "clusters": ["acme-prod"]}, "must be LOCATION.NAME"),
        (ImageBuild, {**BUILD, "images": ["vllm"]}, "must be of .*vllm_tpu.*, got 'vllm'"),
        (ImageBuild, {**BUILD, "source_repository": "acme/platform"}, "connections/CONNECTION"),
        (ImageBuild, {**BUILD, "refuse_severity": "bad"}, "must be one of low, medium"),
        (ImageAttestor, {**ATTESTOR, "attestor_name": "Images"}, "lowercase"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_made(recorder, component, args, message):
    with pytest.raises(pulumi.InputPropertyError, match=message):
        sent(recorder, component, args)
    assert [seen for seen in recorder.registrations if seen.type.startswith("gcp:")] == []


def attestor_of(recorder, **changed):
    recorder.answers[KEY_VERSION] = {
        "name": VERSION,
        "publicKeys": [{"algorithm": "EC_SIGN_P256_SHA256", "pem": PEM}],
    }
    return sent(recorder, ImageAttestor, {**ATTESTOR, **changed})


def test_an_attestor_trusts_the_key_that_signs(recorder):
    attestor_of(recorder)
    key = recorder.one("gcp:kms/cryptoKey:CryptoKey")
    assert key.inputs["purpose"] == "ASYMMETRIC_SIGN"
    assert key.protected
    made = recorder.one("gcp:binaryauthorization/attestor:Attestor").inputs
    assert made["attestationAuthorityNote"] == {
        "noteReference": "acme-prod-images",
        "publicKeys": [
            {
                "id": f"//cloudkms.googleapis.com/v1/{VERSION}",
                "pkixPublicKey": {
                    "publicKeyPem": PEM,
                    "signatureAlgorithm": "ECDSA_P256_SHA256",
                },
            }
        ],
    }


def test_ring_and_key_have_names_that_can_be_made_again(recorder):
    attestor_of(recorder)
    for token in ("gcp:kms/keyRing:KeyRing", "gcp:kms/cryptoKey:CryptoKey"):
        assert "name" not in recorder.one(token).inputs


def test_a_signer_may_sign_attach_and_read_and_no_more(recorder):
    attestor_of(recorder, signers=["serviceAccount:b@x"], protect_key=False)
    roles = sorted(seen.inputs["role"] for seen in recorder.registrations if "role" in seen.inputs)
    assert roles == [
        "roles/binaryauthorization.attestorsViewer",
        "roles/cloudkms.signerVerifier",
        "roles/containeranalysis.notes.attacher",
    ]
    assert not recorder.one("gcp:kms/cryptoKey:CryptoKey").protected


def test_a_key_without_a_public_half_is_refused(recorder):
    recorder.answers[KEY_VERSION] = {"name": VERSION, "publicKeys": []}
    with pytest.raises(Exception, match="reports no public key"):
        sent(recorder, ImageAttestor, ATTESTOR)


@pytest.mark.parametrize(
    ("audit", "mode"), [(False, "ENFORCED_BLOCK_AND_AUDIT_LOG"), (True, "DRYRUN_AUDIT_LOG_ONLY")]
)
def test_a_policy_speaks_of_its_own_clusters_only(recorder, audit, mode):
    sent(recorder, ImageAdmission, {**ADMISSION, "audit_only": audit})
    made = recorder.one("gcp:binaryauthorization/policy:Policy").inputs
    assert made["defaultAdmissionRule"]["evaluationMode"] == "ALWAYS_ALLOW"
    assert made["globalPolicyEvaluationMode"] == "ENABLE"
    assert made["clusterAdmissionRules"] == [
        {
            "cluster": "us-east5.acme-prod",
            "enforcementMode": mode,
            "evaluationMode": "REQUIRE_ATTESTATION",
            "requireAttestationsBies": ADMISSION["attestors"],
        }
    ]


def test_a_push_to_the_branch_builds_scans_copies_and_attests(recorder):
    changed = {"attestor": "projects/acme/attestors/a", "key_version": VERSION, "branch": "release"}
    sent(recorder, ImageBuild, {**BUILD, **changed})
    made = recorder.one("gcp:cloudbuild/trigger:Trigger").inputs
    assert made["repositoryEventConfig"] == {
        "push": {"branch": "^release$"},
        "repository": SOURCE,
    }
    builders = {step["id"]: step["name"].rpartition("/")[2] for step in made["build"]["steps"]}
    assert list(builders) == ["build", "scan", "copy", "attest"]
    assert builders["scan"] == "gcloud"  # the slim image of the SDK reads no packages
    assert made["substitutions"] == {
        "_ATTESTOR": "projects/acme/attestors/a",
        "_KEY_VERSION": VERSION,
    }
    assert made["serviceAccount"].endswith(f"/serviceAccounts/{BUILD['builder']}")


def test_substitutions_come_through_the_environment_as_scripts_have_none(recorder):
    sent(recorder, ImageBuild, {**BUILD, "attestor": "a", "key_version": "k"})
    for step in recorder.one("gcp:cloudbuild/trigger:Trigger").inputs["build"]["steps"]:
        used = set(re.findall(r"\$\{?([A-Z_]+)", step["script"]))
        assert used <= {value.split("=")[0] for value in step["envs"]}
        assert "_KEY_VERSION" not in step["script"]
        assert "COMMIT_SHA" not in step["script"]


def test_the_builder_may_not_change_what_it_does_not_build(recorder):
    sent(recorder, ImageBuilder, {"account_id": "acme-images", "project": "acme"})
    sent(recorder, EngineRepository, {**REPOSITORY, "writers": ["serviceAccount:b@x"]})
    grants = [seen for seen in recorder.registrations if "role" in seen.inputs]
    # in the project it may only log, scan, and record what it found
    assert {
        each.inputs["role"] for each in grants if each.type.endswith("iAMMember:IAMMember")
    } == {
        "roles/containeranalysis.occurrences.editor",
        "roles/logging.logWriter",
        "roles/ondemandscanning.admin",
    }
    # it pushes to its repository alone
    others = [each for each in grants if not each.type.endswith("iAMMember:IAMMember")]
    assert [(each.type.rpartition(":")[2], each.inputs["role"]) for each in others] == [
        ("RepositoryIamMember", "roles/artifactregistry.writer")
    ]


@pytest.mark.parametrize(
    ("component", "args"),
    [
        (EngineRepository, {**REPOSITORY, "writers": ["serviceAccount:b@x"]}),
        (PullThrough, PULLS),
        (ImageAdmission, ADMISSION),
        (ImageBuild, {**BUILD, "attestor": "a", "key_version": "k"}),
        (ImageBuilder, {"account_id": "acme-images", "project": "acme"}),
        (ImageAttestor, {**ATTESTOR, "signers": ["serviceAccount:b@x"]}),
    ],
)
def test_what_is_sent_is_what_googles_provider_takes(recorder, component, args):
    recorder.answers[KEY_VERSION] = {"name": VERSION, "publicKeys": [{"pem": PEM}]}
    failures = {
        f"{seen.type} {seen.name}": [str(each) for each in validate_inputs(seen.type, seen.inputs)]
        for seen in sent(recorder, component, args)
    }
    assert {name: found for name, found in failures.items() if found} == {}
    assert failures


def test_nothing_is_built_on_a_base_without_a_digest():
    base = Image("docker.io/vllm/vllm-openai", "v0.32.0")
    build = Build("vllm_gpu", "vllm-gpu", base, "images.vllm_gpu", "0.32.0")
    with pytest.raises(BuildError, match=r"^images\.vllm_gpu: has no digest .*images pin"):
        steps(target(build=build))


def test_the_build_names_base_release_and_commit_and_leaves_provenance():
    script = scripts()["build"]
    assert f"BASE=docker.io/library/python:3.12.15@sha256:{'1' * 64}" in script
    assert "ENGINE_VERSION=0.32.0" in script
    assert "--provenance mode=max --sbom true" in script
    assert f'--tag "{US}/vllm-tpu:0.32.0-$REVISION" --push workloads' in script


@pytest.mark.parametrize(
    ("severity", "refused"),
    [("LOW", "LOW|MEDIUM|HIGH|CRITICAL"), ("HIGH", "HIGH|CRITICAL"), ("CRITICAL", "CRITICAL")],
)
def test_a_scan_stops_at_the_severity_and_worse(severity, refused):
    assert f"grep -qxE '{refused}' severities" in scripts(refuse_severity=severity)["scan"]


@pytest.mark.parametrize(
    ("found", "code"), [("LOW\nHIGH\n", 1), ("LOW\nMEDIUM\n", 0), ("", 0), ("CRITICAL\n", 1)]
)
def test_the_scan_gate_runs_as_written(found, code, tmp_path):
    (tmp_path / "scanned").write_text("sha256:0")
    fake = tmp_path / "gcloud"
    fake.write_text(
        '#!/bin/sh\ncase "$*" in\n'
        f"  *list-vulnerabilities*) printf '{found}';;\n  *) echo scan-1;;\nesac\n"
    )
    fake.chmod(0o755)
    answer = subprocess.run(
        ["bash", "-c", scripts(refuse_severity="HIGH")["scan"]],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == code, answer.stderr
    assert ("refused" in answer.stderr) == bool(code)


def test_one_region_copies_nothing_and_two_attest_both_names():
    alone = scripts(repositories=(US,))
    assert "copy" not in alone
    both = scripts(attestor="projects/a/attestors/b", key_version=VERSION)
    assert f'--tag "{EU}/vllm-tpu:0.32.0-$REVISION" "{US}/vllm-tpu@$(cat digest)"' in both["copy"]
    assert both["attest"].count("--artifact-url") == 2


def test_an_attestor_without_a_key_is_refused():
    with pytest.raises(BuildError, match="must come with the key version"):
        steps(target(attestor="projects/a/attestors/b"))


def test_a_request_is_what_a_trigger_runs():
    request = build_request(target(), "projects/acme/serviceAccounts/b@x")
    assert [step["id"] for step in request["steps"]] == ["build", "scan", "copy"]
    assert request["steps"][0]["env"] == ["REVISION=abc123"]
    assert request["options"]["logging"] == "CLOUD_LOGGING_ONLY"
    assert json.loads(json.dumps(request)) == request


def test_every_engine_image_has_a_build():
    assert set(builds()) >= {"vllm_gpu", "vllm_tpu", "sglang_gpu", "triton_gpu", "diffusion_tpu"}
