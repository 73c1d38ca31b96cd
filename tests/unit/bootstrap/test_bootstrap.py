"""Bootstrap shows what it would do, does it once, and finds nothing to do the second time."""

import io
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import requests
from google.auth.credentials import AnonymousCredentials
from rich.console import Console

from infra import project
from scripts import bootstrap_run
from scripts.bootstrap import bootstrap, settings_of
from scripts.bootstrap_cloud import Cloud, CloudError
from scripts.bootstrap_policy import Grant, merged, missing
from scripts.bootstrap_project import SERVICES, Ci, Settings, SettingsError
from scripts.console import CommandError
from tests.unit.bootstrap.fake_google import NUMBER, PROJECT, FakeGoogle, refused

CI = "github:acme/inference"


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGoogle]:
    fake = FakeGoogle()
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", fake.address)
    yield fake
    fake.close()


@pytest.fixture
def settings() -> Settings:
    return Settings(
        stack="prod",
        project=PROJECT,
        project_number=int(NUMBER),
        prefix="acme",
        location="us-central1",
        ci=Ci.parse(CI),
    )


def run(
    google: FakeGoogle, settings: Settings, *, yes: bool = True, answer: bool = True
) -> tuple[str, list[str]]:
    """Run bootstrap; return what it printed and what it asked."""
    storage: Any = bootstrap_run.google.cloud.storage
    session: Any = requests.Session()
    cloud = Cloud(settings.project, session, f"{google.address}/", sleep=lambda _: None)
    client = storage.Client(project=settings.project, credentials=AnonymousCredentials())
    out = io.StringIO()
    asked: list[str] = []

    def ask(question: str) -> bool:
        asked.append(question)
        return answer

    console = Console(file=out, width=200)
    with session:
        bootstrap_run.prepare(settings, (cloud, client), console, yes=yes, ask=ask)
    client._http.close()
    return out.getvalue(), asked


def test_an_empty_project_gets_everything(google: FakeGoogle, settings: Settings) -> None:
    run(google, settings)
    assert google.services >= set(SERVICES)
    bucket = google.buckets[f"{PROJECT}-pulumi-state"]
    assert bucket["versioning"] == {"enabled": True}
    assert bucket["iamConfiguration"]["uniformBucketLevelAccess"]["enabled"] is True
    assert bucket["iamConfiguration"]["publicAccessPrevention"] == "enforced"
    assert google.resources[f"cloudkms.googleapis.com/v1/{settings.key}"]["purpose"] == (
        "ENCRYPT_DECRYPT"
    )


def test_the_second_run_changes_nothing(google: FakeGoogle, settings: Settings) -> None:
    run(google, settings)
    google.calls.clear()
    out, asked = run(google, settings, yes=False)
    assert google.changes == []
    assert asked == []
    assert "Nothing to do." in out


def test_the_plan_is_shown_before_anything_is_asked_or_done(
    google: FakeGoogle, settings: Settings
) -> None:
    out, asked = run(google, settings, yes=False, answer=False)
    assert google.changes == []
    assert len(asked) == 1
    assert PROJECT in asked[0]
    assert f"gs://{PROJECT}-pulumi-state in us-central1" in out
    assert "Nothing was changed." in out
    assert "pulumi login" not in out


def test_the_next_commands_name_bucket_and_key(google: FakeGoogle, settings: Settings) -> None:
    out, _ = run(google, settings)
    assert f"pulumi login gs://{PROJECT}-pulumi-state" in out
    assert f"pulumi stack init prod --secrets-provider gcpkms://{settings.key}" in out
    assert f"projects/{NUMBER}/locations/global/workloadIdentityPools" in out


def test_ci_deploys_from_the_main_branch_only_and_has_no_key(
    google: FakeGoogle, settings: Settings
) -> None:
    run(google, settings)
    account = f"iam.googleapis.com/v1/projects/{PROJECT}/serviceAccounts/"
    deploy = google.policies[account + settings.account("deploy")]["bindings"]
    preview = google.policies[account + settings.account("preview")]["bindings"]
    assert deploy[0]["role"] == "roles/iam.workloadIdentityUser"
    assert deploy[0]["members"][0].endswith(
        "/attribute.repository_ref/acme/inference@refs/heads/main"
    )
    assert preview[0]["members"][0].endswith("/attribute.repository/acme/inference")
    assert not [path for _, path in google.calls if "keys" in path.split("/")]


def test_tokens_of_other_repositories_are_refused(google: FakeGoogle, settings: Settings) -> None:
    run(google, settings)
    provider = google.resources[f"iam.googleapis.com/v1/{settings.pool}/providers/github"]
    assert provider["attributeCondition"] == "assertion.repository == 'acme/inference'"


def test_a_preview_may_change_nothing_but_the_lock_of_the_state(
    google: FakeGoogle, settings: Settings
) -> None:
    run(google, settings)
    project = f"cloudresourcemanager.googleapis.com/v3/projects/{PROJECT}"
    member = f"serviceAccount:{settings.account('preview')}"
    state = f"projects/_/buckets/{settings.bucket}"
    only_there = f"resource.name == '{state}' || resource.name.startsWith('{state}/')"
    roles = {
        binding["role"]: binding.get("condition", {}).get("expression")
        for binding in google.policies[project]["bindings"]
        if member in binding["members"]
    }
    assert roles == {
        "roles/container.viewer": None,
        "roles/iam.securityReviewer": None,
        "roles/storage.objectUser": only_there,
        "roles/viewer": None,
    }
    assert google.policies[project]["version"] == 3


def test_without_ci_no_identity_is_made(google: FakeGoogle, settings: Settings) -> None:
    out, _ = run(google, replace(settings, ci=None))
    assert not [path for path in google.resources if "workloadIdentityPools" in path]
    assert "For CI" not in out


def test_a_bucket_without_versions_is_changed_and_not_made_again(
    google: FakeGoogle, settings: Settings
) -> None:
    google.buckets[settings.bucket] = {"name": settings.bucket}
    out, _ = run(google, settings)
    assert "set versions, uniform access, no public access" in out
    assert google.buckets[settings.bucket]["versioning"] == {"enabled": True}


def test_a_provider_that_trusts_another_repository_is_corrected(
    google: FakeGoogle, settings: Settings
) -> None:
    run(google, settings)
    path = f"iam.googleapis.com/v1/{settings.pool}/providers/github"
    google.resources[path]["attributeCondition"] = "true"
    google.calls.clear()
    run(google, settings)
    assert google.changes == [("PATCH", path)]
    assert (
        google.resources[path]["attributeCondition"] == "assertion.repository == 'acme/inference'"
    )


def test_a_deleted_pool_is_restored(google: FakeGoogle, settings: Settings) -> None:
    run(google, settings)
    path = f"iam.googleapis.com/v1/{settings.pool}"
    google.resources[path]["state"] = "DELETED"
    out, _ = run(google, settings)
    assert "restore" in out
    assert google.resources[path]["state"] == "ACTIVE"


def test_roles_of_others_stay(google: FakeGoogle, settings: Settings) -> None:
    project = f"cloudresourcemanager.googleapis.com/v3/projects/{PROJECT}"
    theirs = {"role": "roles/owner", "members": ["user:ann@example.com"]}
    google.policies[project] = {"etag": "7", "bindings": [theirs]}
    run(google, settings)
    assert theirs in google.policies[project]["bindings"]


def test_a_run_that_failed_goes_on_where_it_stopped(google: FakeGoogle, settings: Settings) -> None:
    start = f"cloudkms.googleapis.com/v1/{settings.key_ring}/cryptoKeys"
    google.refusals[start] = refused(403, "cloudkms.cryptoKeys.get denied")
    with pytest.raises(CloudError, match=r"^no permission at cloudkms\.googleapis\.com: "):
        run(google, settings)
    del google.refusals[start]
    run(google, settings)
    assert f"cloudkms.googleapis.com/v1/{settings.key}" in google.resources


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (refused(403, "The caller lacks permission"), "no permission at serviceusage"),
        (refused(403, "off", "BILLING_DISABLED"), "billing is off: link a billing account"),
        (refused(400, "Billing account for project is not found"), "billing is off"),
        (refused(401, "invalid credentials"), "no permission at serviceusage"),
        (refused(500, "internal"), "serviceusage.googleapis.com answered 500: internal"),
    ],
)
def test_a_refusal_is_one_line_that_says_what_to_do(
    google: FakeGoogle, settings: Settings, answer: tuple[int, dict[str, Any]], message: str
) -> None:
    google.refusals["serviceusage.googleapis.com"] = answer
    with pytest.raises(CloudError) as refusal:
        run(google, settings)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_stack_with_the_number_of_another_project_is_refused(
    google: FakeGoogle, settings: Settings
) -> None:
    with pytest.raises(SettingsError, match=f"project_number must be {NUMBER}, .*got 5"):
        run(google, replace(settings, project_number=5))
    assert google.changes == []


def test_an_api_that_is_new_is_waited_for(google: FakeGoogle) -> None:
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        google.services.add("cloudkms.googleapis.com")

    with requests.Session() as session:
        any_session: Any = session
        cloud = Cloud(PROJECT, any_session, f"{google.address}/", sleep=sleep)
        cloud.post("cloudkms.googleapis.com/v1/rings", {}, keyRingId="r")
    assert len(waits) == 1
    assert "cloudkms.googleapis.com/v1/rings/r" in google.resources


@pytest.mark.parametrize("text", ["acme/inference", "bitbucket:a/b", "github:acme", "github:a/b@"])
def test_a_repository_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match=r"^--ci: must be github:OWNER/REPO"):
        Ci.parse(text)


def test_gitlab_projects_may_lie_in_groups_of_groups() -> None:
    ci = Ci.parse("gitlab:acme/ml/inference@release")
    assert (ci.repository, ci.branch) == ("acme/ml/inference", "release")
    assert ci.issuer.uri == "https://gitlab.com"


def test_the_stack_says_what_to_prepare() -> None:
    settings = settings_of("prod", CI, None)
    assert settings.project == PROJECT
    assert settings.location == "us-central1"
    assert settings.account_id("preview") == "acme-prod-ci-preview"


def test_an_account_that_google_would_refuse_is_refused_first(settings: Settings) -> None:
    with pytest.raises(SettingsError, match="at most 30 characters"):
        replace(settings, prefix="a-very-long-team-name").account("preview")


def test_a_grant_with_a_condition_does_not_count_as_given() -> None:
    grant = Grant("roles/viewer", "user:ann@example.com")
    binding = {"role": grant.role, "members": [grant.member], "condition": {"expression": "now"}}
    policy = {"etag": "1", "bindings": [binding]}
    assert missing(policy, [grant]) == [grant]
    after = merged(policy, [grant])
    assert after["bindings"] == [binding, {"role": grant.role, "members": [grant.member]}]


def test_without_credentials_the_command_says_how_to_get_them(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    def none(project: str) -> None:
        raise bootstrap_run.google.auth.exceptions.DefaultCredentialsError(project)

    monkeypatch.setattr(bootstrap_run, "connect", none)
    with pytest.raises(CloudError, match="run 'gcloud auth application-default login'"):
        bootstrap_run.run(settings, yes=True)


@pytest.mark.parametrize(("stack", "ci"), [("prd", None), ("prod", "acme/inference")])
def test_the_command_refuses_what_it_cannot_use_in_one_line(stack: str, ci: str | None) -> None:
    with pytest.raises(CommandError) as refused:
        bootstrap(stack, ci=ci)
    assert "\n" not in str(refused.value)


def test_what_the_program_needs_is_switched_on_before_its_first_run() -> None:
    assert set(project.SERVICES) <= set(SERVICES)
