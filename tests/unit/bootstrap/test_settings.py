"""Settings of a project, from a command line and an earlier run."""

import json
from dataclasses import replace
from typing import Any

import pytest

from infra.bootstrap.settings import KEY_RING, Ci, Project, SettingsError, StackSettings
from infra.plan import resolve
from infra.reading.load import read
from infra.stack.images import PullThrough, UpstreamCredentials
from scripts.bootstrap.command import bootstrap, next_commands, settings_of
from scripts.bootstrap.run import merge
from scripts.terminal.console import CommandError

PROD = StackSettings("prod", "acme", "us-central1", Ci.parse("github:acme/inference"))
STAGING = StackSettings("staging", "acme", "europe-west4")


@pytest.mark.parametrize("text", ["acme/inference", "bitbucket:a/b", "github:acme", "github:a/b@"])
def test_a_repository_that_cannot_be_read_is_refused(text):
    with pytest.raises(SettingsError) as refusal:
        Ci.parse(text)
    assert str(refusal.value) == (
        f"--ci: must be github:OWNER/REPO or gitlab:GROUP/PROJECT, got {text!r}"
    )


def test_gitlab_projects_may_be_in_groups_of_groups():
    ci = Ci.parse("gitlab:acme/ml/inference@release")
    assert (ci.repository, ci.branch) == ("acme/ml/inference", "release")
    assert ci.issuer.uri == "https://gitlab.com"
    assert ci.deploying_reference == "acme/ml/inference@branch/release"


def test_the_stack_file_says_what_to_prepare():
    settings = settings_of(resolve(read("prod")), "prod", "github:acme/inference", None)
    needs: dict[str, Any] = dict.fromkeys(
        ("has_clients", "has_front", "has_images", "has_records"), True
    )
    services = resolve(read("prod")).project.services
    assert "memorystore.googleapis.com" in services
    assert settings == replace(PROD, services=services, **needs)
    assert settings.account_id("preview") == "acme-prod-ci-preview"


def test_only_the_project_s_own_secrets_of_registries_are_prepared():
    platform = read("prod")
    secrets = {
        "docker.io": f"projects/{platform.project}/secrets/hub/versions/1",
        "ghcr.io": f"projects/{platform.project_number}/secrets/github/versions/2",
        "nvcr.io": "projects/acme-keys/secrets/nvidia/versions/1",
    }
    logins = {
        registry: UpstreamCredentials(username="acme", secret=secret)
        for registry, secret in secrets.items()
    }
    through = PullThrough(name="upstream", credentials=logins)
    assert platform.images is not None
    images = platform.images.model_copy(update={"pull_through": through})
    settings = settings_of(
        resolve(platform.model_copy(update={"images": images})), "prod", None, None
    )
    assert settings.upstream_secrets == ("github", "hub")


def test_settings_survive_as_an_output_of_the_program():
    for settings in (replace(PROD, upstream_secrets=("hub",)), STAGING):
        output = json.loads(json.dumps(settings.as_dict()))
        assert StackSettings.from_dict(output) == settings


def test_settings_of_another_version_are_read():
    output = {**STAGING.as_dict(), "has_something_else": True}
    del output["upstream_secrets"]
    assert StackSettings.from_dict(output) == STAGING


def test_an_account_that_google_would_refuse_is_refused_first():
    asked = replace(PROD, prefix="a-very-long-team-name")
    with pytest.raises(SettingsError) as refusal:
        merge({}, asked, has_location=False)
    assert str(refusal.value) == (
        "prefix: must leave the account id at most 30 characters,"
        " got 'a-very-long-team-name-prod-ci-deploy'"
    )


def test_a_second_stack_is_added_to_those_of_the_project():
    assert merge({"prod": PROD}, STAGING, has_location=False) == (PROD, STAGING)


def test_a_run_without_a_repository_keeps_the_one_of_the_run_before():
    assert merge({"prod": PROD}, replace(PROD, ci=None), has_location=False) == (PROD,)


def test_a_run_without_a_location_keeps_the_one_of_the_run_before():
    asked = replace(PROD, location="europe-west4")
    assert merge({"prod": PROD}, asked, has_location=False) == (PROD,)


def test_a_key_cannot_move_to_another_location():
    asked = replace(PROD, location="europe-west4")
    with pytest.raises(SettingsError) as refusal:
        merge({"prod": PROD}, asked, has_location=True)
    assert str(refusal.value) == (
        "--location: must be us-central1, where the key of prod is, got europe-west4"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stack": "prd"}, "--stack: must be one of dev, local, prod, staging"),
        ({"ci": "acme/inference"}, "--ci: must be github:OWNER/REPO"),
        ({"location": "mars"}, "--location: must be a region such as us-east5, got 'mars'"),
        (
            {"undo": True, "ci": "github:a/b"},
            "--ci: must not be used with --undo, got 'github:a/b'",
        ),
        (
            {"undo": True, "location": "us-east5"},
            "--location: must not be used with --undo, got 'us-east5'",
        ),
    ],
)
def test_what_the_command_cannot_use_is_refused_in_one_line(options, message):
    given: dict[str, Any] = {"stack": "prod"}
    with pytest.raises(CommandError) as refusal:
        bootstrap(**given | options)
    assert str(refusal.value).startswith(message)
    assert "\n" not in str(refusal.value)


def test_the_values_for_ci_are_printed_for_a_stack_with_a_repository_only():
    project = Project("acme", 314, (PROD, STAGING))
    with_ci, without = next_commands(project, "prod"), next_commands(project, "staging")
    assert "For CI:" in with_ci
    assert any("acme-prod-ci-deploy@" in line for line in with_ci)
    assert without == [
        "",
        "Next:",
        "  pulumi login gs://acme-pulumi-state",
        "  pulumi stack init staging --secrets-provider "
        "gcpkms://projects/acme/locations/europe-west4/keyRings/"
        f"{KEY_RING}/cryptoKeys/stack-staging",
        "  pulumi preview -s staging",
    ]
    shown = next_commands(project, "staging", has_unbuilt_images=True)
    assert shown[-2:] == ["  gke-inference images prepare --stack staging --on cloud", without[-1]]
