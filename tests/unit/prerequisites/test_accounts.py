"""Preflight of service accounts that a stack grants access to."""

from dataclasses import replace

import pytest

from infra.plan import resolve
from infra.reading.load import read
from scripts.prerequisites.accounts import accounts
from scripts.prerequisites.finding import Finding, Project, State
from tests.unit.prerequisites.ready_project import ReadyProject
from twin.host.paths import REPOSITORY

EXAMPLE = REPOSITORY / "docs" / "examples" / "personalized-images"
EMAIL = "app@acme-inference-images.iam.gserviceaccount.com"
URL = f"iam.googleapis.com/v1/projects/acme-inference-images/serviceAccounts/{EMAIL}"


@pytest.fixture
def caller(project: Project, google: ReadyProject) -> Project:
    """Give a project whose stack lets one account call its service."""
    google.services.add("iam.googleapis.com")
    return replace(project, plan=resolve(read("personalized-images", EXAMPLE)))


def found(project: Project) -> Finding:
    (finding,) = accounts(project)
    return finding


def test_a_caller_that_exists_is_met(caller: Project, google: ReadyProject) -> None:
    google.resources[URL] = {"email": EMAIL}
    assert found(caller).state is State.MET


def test_a_caller_that_nobody_created_has_the_command_that_creates_it(caller: Project) -> None:
    finding = found(caller)
    assert (finding.state, finding.name, finding.says) == (State.MISSING, EMAIL, "there is none")
    command = "gcloud iam service-accounts create app --project=acme-inference-images"
    assert finding.command == command


def test_a_disabled_caller_is_missing(caller: Project, google: ReadyProject) -> None:
    google.resources[URL] = {"email": EMAIL, "disabled": True}
    assert found(caller).says == "is disabled"
    assert found(caller).command.startswith(f"gcloud iam service-accounts enable {EMAIL}")


def test_a_stack_without_such_a_caller_asks_for_nothing(project: Project) -> None:
    assert list(accounts(project)) == []
