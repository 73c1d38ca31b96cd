"""`sweep --on cloud`: what is left in a project, and what of it is removed."""

import pytest
import typer

from scripts.operate.sweep import sweep
from scripts.terminal.console import CommandError
from scripts.terminal.where import Where
from tests.unit.backend.deployed_project import COMPUTE, LINKS, NETWORK, PROJECT
from tests.unit.bootstrap.fake_google import refused

NET = f"{LINKS}/global/networks/{NETWORK}"
OTHER = f"{LINKS}/global/networks/default"


@pytest.fixture
def left(google):
    """A project whose clusters went before their Gateways, beside a load balancer of others."""
    google.clear()
    for at, (network, tail) in enumerate([(NET, "ours"), (OTHER, "theirs")]):
        region, zone = "regions/us-central1", "zones/us-central1-a"
        group = google.add("networkEndpointGroups", zone, f"k8s1-{tail}", network=network)
        check = google.add("healthChecks", region, f"gkegw1-check-{tail}")
        service = google.add(
            "backendServices",
            region,
            f"gkegw1-backend-{tail}",
            backends=[{"group": group}],
            healthChecks=[check],
        )
        urls = google.add("urlMaps", region, f"gkegw1-map-{tail}", defaultService=service)
        proxy = google.add("targetHttpsProxies", region, f"gkegw1-proxy-{tail}", urlMap=urls)
        google.add("forwardingRules", region, f"gkegw1-{tail}", network=network, target=proxy)
        google.add("firewalls", "global", f"gkegw1-l7-{tail}", network=network)
        cluster = ["acme-prod-us-central1", "another"][at]
        google.add("disks", zone, f"pvc-{tail}", labels={"goog-k8s-cluster-name": cluster})
    return google


def answered(capsys, **options):
    """Run the command; return its exit code and its lines."""
    code = 0
    try:
        sweep(on=Where.CLOUD, stack="prod", **options)
    except typer.Exit as ended:
        code = ended.exit_code
    return code, capsys.readouterr().out.splitlines()


ALL = [
    "forwarding rule gkegw1-ours in us-central1, made by GKE",
    "target proxy gkegw1-proxy-ours in us-central1, made by GKE",
    "URL map gkegw1-map-ours in us-central1, made by GKE",
    "backend service gkegw1-backend-ours in us-central1, made by GKE",
    "health check gkegw1-check-ours in us-central1, made by GKE",
    "network endpoint group k8s1-ours in us-central1-a, made by GKE",
    "firewall rule gkegw1-l7-ours, made by GKE",
    "disk pvc-ours in us-central1-a, made by GKE",
]


def test_a_project_without_a_trace_of_the_stack_passes(google, capsys):
    google.clear()
    assert answered(capsys) == (0, ["Nothing is left."])


def test_what_gke_left_in_the_stacks_network_is_found_and_nothing_of_others(left, capsys):
    assert answered(capsys) == (1, ALL)
    assert {method for method, _ in left.calls} == {"GET"}


def test_what_is_left_goes_in_the_order_in_which_google_lets_it_go(left, capsys):
    code, lines = answered(capsys, delete=True, yes=True)
    assert code == 1  # the disk has data
    assert [line for line in lines if line.startswith("deleted ")] == [
        f"deleted {line}" for line in ALL[:-1]
    ]
    assert lines[-1] == ALL[-1]
    names = [each["name"] for found in left.listed.values() for each in found]
    assert [name for name in names if name.endswith("ours")] == ["pvc-ours"]
    assert sum(name.endswith("theirs") for name in names) == len(ALL)


def test_what_others_made_in_the_network_is_listed_and_stays(google, capsys):
    google.clear()
    google.add("firewalls", "global", "allow-ssh", network=NET)
    google.add("forwardingRules", "regions/us-central1", "database", network=NET)
    made = '{"kubernetes.io/service-name": "models/llama"}'
    google.add("firewalls", "global", "short", network=NET, description=made)
    left = ["forwarding rule database in us-central1, made by others",
            "firewall rule allow-ssh, made by others"]  # fmt: skip
    code, lines = answered(capsys, delete=True, yes=True)
    assert (code, lines[-2:]) == (1, left)
    assert [line for line in lines if line.startswith("deleted")] == [
        "deleted firewall rule short, made by GKE"
    ]


def test_disks_go_only_where_their_data_is_given_up(left, capsys):
    code, lines = answered(capsys, delete=True, disks=True, yes=True)
    assert (code, lines[-1]) == (0, "Nothing is left.")


def test_nothing_goes_without_a_yes(left, capsys, monkeypatch):
    monkeypatch.setattr(typer, "confirm", lambda _: False)
    code, lines = answered(capsys, delete=True)
    assert (code, lines[-len(ALL) :]) == (1, ALL)
    assert {method for method, _ in left.calls} == {"GET"}


def test_nothing_goes_while_a_cluster_may_still_use_it(left, capsys):
    left.make_cluster("us-central1", "acme-prod-us-central1")
    with pytest.raises(CommandError, match="must be used after the clusters are gone, got acme-"):
        sweep(on=Where.CLOUD, stack="prod", delete=True, yes=True)
    assert {method for method, _ in left.calls} == {"GET"}


def test_what_the_stack_made_is_left_to_pulumi(google, capsys):
    google.clear()
    google.resources[f"{COMPUTE}/projects/{PROJECT}/global/networks/{NETWORK}"] = {"name": NETWORK}
    assert answered(capsys, delete=True, yes=True) == (1, [f"network {NETWORK}"])
    assert "DELETE" not in {method for method, _ in google.calls}


@pytest.mark.parametrize(
    "answer",
    [refused(403, "Required 'compute.disks.list'"), refused(403, "off", "SERVICE_DISABLED")],
)
def test_what_google_does_not_show_proves_nothing(google, answer):
    google.clear()
    google.refusals[f"{COMPUTE}/projects/{PROJECT}/aggregated/disks"] = answer
    with pytest.raises(CommandError, match=r"compute\.googleapis\.com"):
        sweep(on=Where.CLOUD, stack="prod")


def test_an_operation_that_fails_is_the_error(left, capsys, monkeypatch):
    failed = {"status": "DONE", "error": {"errors": [{"message": "is already being used by"}]}}
    left.refusals[f"{COMPUTE}/projects/{PROJECT}/global/operations"] = (200, failed)
    with pytest.raises(
        CommandError, match=r"forwarding rule gkegw1-ours .*: is already being used"
    ):
        sweep(on=Where.CLOUD, stack="prod", delete=True, yes=True)
