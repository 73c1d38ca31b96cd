"""Existing resources of a project are found without a change, and deleted ones are restored."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from infra.bootstrap.settings import Ci, Project, SettingsError, StackSettings
from scripts.bootstrap import run
from scripts.bootstrap.existing import candidates, look_up
from scripts.bootstrap.state import State, Surroundings
from scripts.shared import google_clients
from scripts.shared.google_cloud import Cloud, CloudError
from tests.unit.bootstrap.fake_google import NUMBER, PROJECT, FakeGoogle, refused

SETTINGS = StackSettings("prod", "acme", "us-central1", Ci.parse("github:acme/inference"))
ACME = Project(PROJECT, int(NUMBER), (SETTINGS,))
POOL = f"iam.googleapis.com/v1/{ACME.pool}"
BUCKET = f"storage.googleapis.com/storage/v1/b/{ACME.bucket}"


@pytest.fixture
def google() -> Iterator[FakeGoogle]:
    fake = FakeGoogle()
    yield fake
    fake.close()


@pytest.fixture
def cloud(google) -> Iterator[Cloud]:
    with requests.Session() as session:
        any_session: Any = session
        yield Cloud(PROJECT, any_session, f"{google.address}/", sleep=lambda _: None)


def in_state(*names: tuple[str, str]) -> dict[str, Any]:
    return {"resources": [{"type": type_, "urn": f"urn::{name}"} for type_, name in names]}


def test_an_empty_project_has_nothing_to_adopt(google, cloud):
    found = look_up(ACME, cloud, {})
    assert (found.unknown, found.deleted) == ((), ())
    assert {method for method, _ in google.calls} == {"GET"}


def test_what_cannot_be_created_twice_is_looked_up(cloud):
    assert [each.name for each in candidates(ACME)] == [
        "state-bucket",
        "key-ring us-central1",
        "key prod",
        "identity-pool",
        "identity-provider github",
        "deploy prod",
        "preview prod",
    ]


def test_a_bucket_that_was_made_by_hand_is_adopted(google, cloud):
    google.resources[BUCKET] = {"name": ACME.bucket}
    (found,) = look_up(ACME, cloud, {}).unknown
    assert found.as_import() == {
        "id": "acme-inference-prod-pulumi-state",
        "name": "state-bucket",
        "type": "gcp:storage/bucket:Bucket",
        "version": google_version(),
    }


def google_version() -> str:
    from importlib.metadata import version  # noqa: PLC0415 - the one that the program runs with

    return version("pulumi_gcp")


def test_what_the_state_knows_is_not_adopted(google, cloud):
    google.resources[BUCKET] = {"name": ACME.bucket}
    known = in_state(("gcp:storage/bucket:Bucket", "state-bucket"))
    assert look_up(ACME, cloud, known).unknown == ()


def test_a_deleted_pool_is_restored_whether_the_state_knows_it_or_not(google, cloud):
    google.resources[POOL] = {"name": ACME.pool, "state": "DELETED"}
    known = in_state(("gcp:iam/workloadIdentityPool:WorkloadIdentityPool", "identity-pool"))
    for deployment in ({}, known):
        google.resources[POOL]["state"] = "DELETED"
        (deleted,) = look_up(ACME, cloud, deployment).deleted
        deleted.restore(cloud)
        assert google.resources[POOL]["state"] == "ACTIVE"


def test_other_state_and_objects_in_the_bucket_are_named(google, cloud, tmp_path):
    names = [
        ".pulumi/meta.yaml",
        f".pulumi/stacks/gke-inference-bootstrap/{PROJECT}.json",
        f".pulumi/stacks/gke-inference-bootstrap/{PROJECT}.json.bak",
        f".pulumi/history/gke-inference-bootstrap/{PROJECT}/a.history.json",
        ".pulumi/stacks/gke-inference/prod.json",
        ".pulumi/stacks/gke-inference/prod.json.bak",
        ".pulumi/stacks/gke-inference/staging.json.gz",
        "notes.txt",
    ]
    google.resources[f"{BUCKET}/o"] = {"items": [{"name": name} for name in names]}
    state = State(ACME, cloud, Surroundings(Path("pulumi"), {}, tmp_path))
    assert state.others() == ["gke-inference/prod", "gke-inference/staging", "notes.txt"]


def test_without_a_bucket_there_is_no_other_state(cloud, tmp_path):
    state = State(ACME, cloud, Surroundings(Path("pulumi"), {}, tmp_path))
    assert state.others() == []
    assert not state.exists


def test_a_stack_with_the_number_of_another_project_is_refused(google, cloud):
    with pytest.raises(SettingsError) as refusal:
        run.check_number(Project(PROJECT, 5, ()), cloud)
    assert str(refusal.value) == (
        "project_number: must be 141421356237, the number of acme-inference-prod, got 5"
    )


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            refused(403, "The caller lacks permission"),
            "no permission at serviceusage.googleapis.com: The caller lacks permission",
        ),
        (
            refused(403, "off", "BILLING_DISABLED"),
            "billing is off: link a billing account to the project (off)",
        ),
        (
            refused(400, "Billing account for project is not found"),
            "billing is off: link a billing account to the project"
            " (Billing account for project is not found)",
        ),
        (
            refused(401, "invalid credentials"),
            "no permission at serviceusage.googleapis.com: invalid credentials",
        ),
        (refused(500, "internal"), "serviceusage.googleapis.com answered 500: internal"),
    ],
)
def test_a_refusal_is_one_line_with_what_to_do(google, cloud, answer, message):
    google.refusals["serviceusage.googleapis.com"] = answer
    with pytest.raises(CloudError) as refusal:
        run.check_number(ACME, cloud)
    assert str(refusal.value) == message


def test_a_call_waits_for_an_api_that_is_new(google):
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        google.services.add("cloudkms.googleapis.com")

    google.resources["cloudkms.googleapis.com/v1/rings"] = {"name": "r"}
    with requests.Session() as session:
        any_session: Any = session
        cloud = Cloud(PROJECT, any_session, f"{google.address}/", sleep=sleep)
        answer = cloud.post("cloudkms.googleapis.com/v1/rings", {})
    assert (waits, answer) == ([5.0], {"name": "r"})


def test_without_credentials_the_command_says_how_to_get_them(monkeypatch):
    def none(**_: Any) -> None:
        raise google_clients.google.auth.exceptions.DefaultCredentialsError

    monkeypatch.setattr(google_clients.google.auth, "default", none)
    with pytest.raises(CloudError) as refusal:
        google_clients.connect(PROJECT)
    assert str(refusal.value) == (
        "no Google credentials: run 'gcloud auth application-default login'"
    )
