"""`recover --on cloud`: unfinished creations that exist are taken over, others are forgotten."""

import subprocess

import pytest

from scripts.operate.recover import recover
from scripts.shared.pulumi_cli import PulumiCli
from scripts.terminal.console import CommandError
from scripts.terminal.where import Where
from tests.unit.backend.deployed_project import COMPUTE, PROJECT
from tests.unit.bootstrap.fake_google import refused

URN = "urn:pulumi:prod::gke-inference::gcp:compute/network:Network::network"
CLUSTER = "urn:pulumi:prod::gke-inference::gcp:container/cluster:Cluster::main"
PEERING = "urn:pulumi:prod::p::gcp:servicenetworking/connection:Connection::services"
NETWORK = f"projects/{PROJECT}/global/networks/acme-prod-net"


def creating(urn, **inputs):
    resource = {"urn": urn, "type": urn.split("::")[2], "inputs": inputs}
    return {"type": "creating", "resource": resource}


@pytest.fixture
def engine(monkeypatch):
    """The state that Pulumi has, and the commands that were run."""
    state = {"pending_operations": []}
    ran = []

    def run(_, *arguments, **__):
        ran.append(arguments)
        return subprocess.CompletedProcess(arguments, 0, "", "")

    monkeypatch.setattr(PulumiCli, "deployment", lambda *_: state)
    monkeypatch.setattr(PulumiCli, "run", run)
    return state["pending_operations"], ran


def test_what_exists_is_imported_and_what_does_not_is_cleared(google, engine, capsys):
    pending, ran = engine
    google.resources[f"{COMPUTE}/{NETWORK}"] = {}
    pending += [creating(URN, name="acme-prod-net"), creating(CLUSTER, name="x", location="y")]
    recover("prod", on=Where.CLOUD, yes=True)
    (arguments,) = ran
    assert arguments == (
        "refresh", "--yes", "--skip-preview", "--non-interactive", "--clear-pending-creates",
        "--import-pending-creates", URN, "--import-pending-creates", NETWORK, "-s", "prod",
    )  # fmt: skip
    said = capsys.readouterr().out
    assert f"creating gcp:compute/network:Network network: exists as {NETWORK}" in said


@pytest.mark.parametrize("has_peering", [True, False])
def test_a_connection_to_googles_services_exists_if_its_network_has_the_peering(
    google, engine, has_peering
):
    pending, ran = engine
    names = ["servicenetworking-googleapis-com"] if has_peering else ["other"]
    google.resources[f"{COMPUTE}/{NETWORK}"] = {"peerings": [{"name": name} for name in names]}
    pending.append(creating(PEERING, network=NETWORK, service="servicenetworking.googleapis.com"))
    recover("prod", on=Where.CLOUD, yes=True)
    identifier = f"{NETWORK.replace('/', '%2F')}:servicenetworking.googleapis.com"
    assert (identifier in ran[0]) is has_peering


def test_a_run_that_ended_leaves_nothing_to_do(google, engine, capsys):
    recover("prod", on=Where.CLOUD)
    assert engine[1] == []
    assert "nothing to recover" in capsys.readouterr().out


def test_nothing_changes_where_google_does_not_show_whether_it_exists(google, engine):
    engine[0].append(creating(URN, name="acme-prod-net"))
    google.refusals[COMPUTE] = refused(403, "Required 'compute.networks.get'")
    with pytest.raises(CommandError, match=r"no permission at compute\.googleapis\.com"):
        recover("prod", on=Where.CLOUD, yes=True)
    assert engine[1] == []


def test_without_pulumi_on_the_path_the_error_names_it(google, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(CommandError, match=r"^pulumi: must be on PATH"):
        recover("prod", on=Where.CLOUD)
