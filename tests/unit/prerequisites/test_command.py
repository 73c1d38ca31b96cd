"""`gke-inference preflight --on cloud`: the table, the exit code, and that nothing is written."""

import json
from typing import Any

import pytest
import typer

from scripts.check import preflight_cloud
from scripts.check.preflight import preflight
from scripts.prerequisites.finding import State
from scripts.prerequisites.run import GROUPS, run
from scripts.shared import google_clients
from scripts.shared.google_cloud import Cloud, ReadOnly, WriteRefused
from scripts.terminal.console import CommandError
from scripts.terminal.output import Output
from scripts.terminal.where import Where
from tests.unit.bootstrap.fake_google import refused
from twin.host.paths import TwinPaths
from twin.world.capacity import GivenCertificate, World
from twin.world.quota import QuotaLine


@pytest.fixture
def connected(google, project, monkeypatch) -> None:
    """Let the command reach the server that stands in for Google."""
    cloud = Cloud(google.id, project.cloud.session.session, f"{google.address}/")
    monkeypatch.setattr(google_clients, "connect", lambda _: cloud)
    monkeypatch.setattr(preflight_cloud, "Registry", lambda: project.registry)
    monkeypatch.setattr("scripts.check.preflight.plan_of", lambda _: project.plan)


def answered(capsys, **options: Any) -> tuple[int, dict[str, Any]]:
    """Run the command; return its exit code and its JSON."""
    code = 0
    try:
        preflight("prod", on=Where.CLOUD, output=Output.JSON, **options)
    except typer.Exit as ended:
        code = ended.exit_code
    return code, json.loads(capsys.readouterr().out)


def test_a_project_with_everything_passes(connected, capsys):
    code, answer = answered(capsys)
    assert (code, answer["is_ready"]) == (0, True)
    required = {each["state"] for each in answer["findings"] if each["is_required"]}
    assert required == {"met", "later"}
    later = [each["subject"] for each in answer["findings"] if each["state"] == "later"]
    assert later == ["DNS record"]


def test_what_is_missing_fails_with_the_command_that_makes_it(connected, google, capsys):
    google.enabled.remove("container.googleapis.com")
    code, answer = answered(capsys)
    assert (code, answer["is_ready"]) == (1, False)
    (missing,) = [each for each in answer["findings"] if each["state"] == "missing"]
    assert missing["command"] == (
        "gcloud services enable container.googleapis.com --project=acme-inference-prod"
    )


def test_what_google_refuses_to_show_is_not_met_unless_it_may_pass(connected, google, capsys):
    google.refusals["cloudbuild.googleapis.com"] = refused(403, "permission denied")
    code, answer = answered(capsys)
    assert (code, answer["is_ready"]) == (1, False)
    assert answered(capsys, allow_unseen=True)[0] == 0


def test_what_is_missing_fails_although_the_unseen_may_pass(connected, google, capsys):
    google.enabled.remove("container.googleapis.com")
    assert answered(capsys, allow_unseen=True)[0] == 1


def test_poor_odds_of_a_machine_fail_nothing(connected, google, capsys):
    google.odds = {"g2-standard-12": 0.1, "a3-highgpu-2g": 0.1, "a3-highgpu-8g": 0.1}
    code, answer = answered(capsys)
    assert code == 0
    assert "unlikely" in {each["state"] for each in answer["findings"]}


def test_only_methods_that_change_nothing_are_sent(connected, google, capsys):
    answered(capsys)
    assert {method for method, _ in google.calls} == {"GET", "POST"}
    posted = {path.rpartition("/")[2].rpartition(":")[2] for m, path in google.calls if m == "POST"}
    assert posted == {"testIamPermissions", "capacity"}


@pytest.mark.parametrize(
    ("method", "url"),
    [
        ("POST", "https://serviceusage.googleapis.com/v1/projects/p/services/a:enable"),
        ("POST", "https://compute.googleapis.com/compute/v1/projects/p/zones/z/reservations"),
        ("PATCH", "https://dns.googleapis.com/dns/v1/projects/p/managedZones/z"),
        ("DELETE", "https://storage.googleapis.com/storage/v1/b/b"),
    ],
)
def test_a_call_that_may_change_something_is_not_sent(method, url):
    session: Any = None  # not reached
    with pytest.raises(WriteRefused, match="must be a method that changes nothing"):
        ReadOnly(session).request(method, url, json=None, params=None, headers={}, timeout=1)


def test_every_group_tells_when_everything_is_refused(google, project):
    google.services.clear()
    project.registry.errors = {"": "denied"}
    for title, checks in GROUPS.items():
        found = list(run(project, checks))
        if title == "what exists":  # the stack names nothing
            assert found == []
            continue
        assert found, title
        assert {each.state for each in found} == {State.UNSEEN}, title


def test_no_credentials_end_the_command(monkeypatch):
    def none(_: str) -> Cloud:
        raise google_clients.CloudError("no Google credentials")

    monkeypatch.setattr(google_clients, "connect", none)
    with pytest.raises(CommandError, match="acme-inference-prod: no Google credentials"):
        preflight("prod", on=Where.CLOUD)


def test_the_table_has_a_command_under_what_is_missing(connected, google, capsys):
    google.denied_permissions.add("storage.buckets.create")
    with pytest.raises(typer.Exit):
        preflight("prod", on=Where.CLOUD)
    lines = capsys.readouterr().out.splitlines()
    at = next(n for n, line in enumerate(lines) if "storage.buckets.create" in line)
    assert lines[at].startswith("missing")
    assert "--role=roles/storage.admin" in lines[at + 1]
    assert any(line.startswith("Reading quotas") for line in lines)
    assert "Stack prod in project acme-inference-prod:" in lines[-1]


def test_unseen_requirements_are_accepted_only_where_a_project_is_read():
    with pytest.raises(CommandError, match="--allow-unseen: must be omitted without --on"):
        preflight("prod", allow_unseen=True)


def test_a_twin_shows_what_it_keeps_and_says_what_it_does_not(prod, tmp_path):
    paths = TwinPaths(tmp_path / "twin")
    World(
        certificates=(GivenCertificate(name=str(prod.platform.gateway.certificate)),),
        quota=(QuotaLine(region="us-central1", accelerator="tpu-v6e", chips=1),),
    ).save(paths.capacity_file)
    project = preflight_cloud.twin_project(prod, "prod", paths)
    checks = [check for title, found in GROUPS.items() for check in found if title != "weights"]
    found = {f"{each.subject} {each.name}": each for each in run(project, tuple(checks))}
    missing = {name for name, each in found.items() if each.state is State.MISSING}
    assert "API container.googleapis.com" in missing
    assert any(name.startswith("quota TPUS_PER_TPU_FAMILY") for name in missing)
    unseen = {each.subject for each in found.values() if each.state is State.UNSEEN}
    assert {"certificate", "image", "organization policy", "permission"} <= unseen
    absent = {each.subject for each in found.values() if each.state is State.MISSING}
    assert {"build connection", "disk image", "reservation", "snapshot"} <= absent
    met = {each.subject for each in found.values() if each.state is State.MET}
    assert met == {"project number", "quota"}
