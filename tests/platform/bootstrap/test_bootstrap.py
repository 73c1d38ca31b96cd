"""`bootstrap` on the twin, in the order of a project's life: shown, made, repaired, taken back."""

from dataclasses import replace

import pytest

from scripts.terminal.where import ON_TWIN
from tests.platform.bootstrap.conftest import BUCKET, NAME, STATE
from twin.providers.gcp.effects import gcs

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(1800)]

CI = ("--ci", "github:acme/inference")
BARE = {"Bucket": 1, "CryptoKey": 1, "KeyRing": 1, "Service": 24}
ALL = sum(BARE.values())
WITH_CI = {
    **BARE,
    "Account": 2,
    "BucketIAMMember": 1,
    "CryptoKeyIAMMember": 2,
    "IAMMember": 21,
    "WorkloadIdentityPool": 1,
    "WorkloadIdentityPoolProvider": 1,
}
KEPT = {"CryptoKey": 1, "KeyRing": 1}


def test_a_run_that_the_user_declines_shows_the_changes_and_makes_none(project):
    answer = project.run(answer="n\n")
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.count("create ") == ALL
    assert f"Make these {ALL} changes in project {NAME}?" in answer.stdout
    assert answer.stdout.endswith("Nothing was changed.\n")
    assert project.counts() == {}
    assert not project.local_state()


@pytest.mark.parametrize("changes", [pytest.param(5, marks=pytest.mark.soak), ALL - 2])
def test_a_run_that_was_killed_is_finished_by_the_next(project, changes):
    """Killed in the middle; killed after the last change and before the state was moved."""
    project.kill_after(changes, "--yes")
    answer = project.run("--yes")
    assert answer.returncode == 0, answer.stderr
    assert f"The state is now in gs://{BUCKET}." in answer.stdout
    assert project.counts() == BARE
    assert project.resources_in_bucket() == ALL + 2  # with the stack and its provider
    assert not project.local_state()
    if changes == 5:
        assert project.run("--undo", "--yes").returncode == 0


def test_the_second_run_asks_nothing_and_changes_nothing(project):
    before = project.records()
    answer = project.run()
    assert answer.returncode == 0, answer.stderr
    assert "Nothing to change.\n" in answer.stdout
    assert "Make these" not in answer.stdout
    # that an engine knows what a killed one made is no change of the project
    assert acknowledged(project.records()) == acknowledged(before)


def acknowledged(records):
    return [replace(each, acknowledged=True) for each in records]


def test_a_repository_adds_identities_without_keys(project):
    answer = project.run(*CI, "--yes")
    assert answer.returncode == 0, answer.stderr
    assert project.counts() == WITH_CI
    pool = "projects/271828182845/locations/global/workloadIdentityPools/gke-inference-ci"
    assert f"workload_identity_provider: {pool}/providers/github\n" in answer.stdout
    key = f"projects/{NAME}/locations/us-central1/keyRings/gke-inference/cryptoKeys/stack-dev"
    assert f"pulumi stack init dev --secrets-provider gcpkms://{key}\n" in answer.stdout
    assert f"pulumi login gs://{BUCKET}\n" in answer.stdout


def test_what_changed_behind_the_state_is_corrected(project):
    project.change(project.record("/providers/github"), attributeCondition="true")
    project.change(project.record(BUCKET), versioning={"enabled": False})
    answer = project.run("--yes")
    assert answer.returncode == 0, answer.stderr
    assert "update   Bucket                       state-bucket: versioning\n" in answer.stdout
    condition = project.record("/providers/github").outputs["attributeCondition"]
    assert condition == "assertion.repository == 'acme/inference'"
    assert project.record(BUCKET).outputs["versioning"] == {"enabled": True}


def test_a_run_whose_state_was_lost_adopts_what_the_project_has(project):
    gcs.delete_object(project.paths, BUCKET, STATE)
    answer = project.run(*CI, "--yes")
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.count("adopt    ") == 7
    assert f"adopt    {BUCKET}\n" in answer.stdout
    assert project.counts() == WITH_CI
    assert project.resources_in_bucket() == sum(WITH_CI.values()) + 2


@pytest.mark.soak  # the first test declines a run
def test_an_undo_that_the_user_declines_deletes_nothing(project):
    before = project.objects()
    answer = project.run("--undo", answer="n\n")
    assert answer.returncode == 0, answer.stderr
    assert "delete   Bucket                       state-bucket\n" in answer.stdout
    assert answer.stdout.endswith("Nothing was changed.\n")
    assert project.counts() == WITH_CI
    assert project.objects() == before


def test_an_undo_is_refused_while_the_bucket_holds_other_state(project):
    other = ".pulumi/stacks/gke-inference/dev.json"
    gcs.upload(project.paths, BUCKET, other, b"{}", "application/json")
    answer = project.run("--undo", "--yes")
    assert answer.returncode == 2
    rule = "must hold no other state or objects"
    assert answer.stderr == f"{ON_TWIN}\nerror: gs://{BUCKET}: {rule}, got gke-inference/dev\n"
    assert project.counts() == WITH_CI
    gcs.delete_object(project.paths, BUCKET, other)


def test_an_undo_that_was_killed_is_finished_by_the_next(project):
    project.kill_after(3, "--undo", "--yes")
    answer = project.run("--undo", "--yes")
    assert answer.returncode == 0, answer.stderr
    assert project.counts() == KEPT
    assert not gcs.has_bucket(project.paths, BUCKET)
    assert not (project.paths.root / "bootstrap" / NAME).exists()


@pytest.mark.soak  # a second run has nothing to do above
def test_a_second_undo_has_nothing_to_do(project):
    answer = project.run("--undo")
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == f"Project {NAME} is not prepared for dev: nothing to undo.\n"


@pytest.mark.soak  # a run whose state was lost adopts the key as well
def test_after_an_undo_the_kept_key_is_adopted(project):
    answer = project.run("--yes")
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.count("adopt    ") == 2
    assert project.counts() == BARE


@pytest.mark.soak  # tests/unit/bootstrap/test_settings.py has the message
def test_a_key_cannot_be_moved(project):
    answer = project.run("--location", "us-east5", "--yes")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == (
        "error: --location: must be us-central1, where the key of dev is, got us-east5\n"
    )
