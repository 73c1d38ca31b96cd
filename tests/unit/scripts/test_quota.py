"""`gke-inference quota`: against the twin's limits, and against a project's."""

import json
import shlex
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import typer
from google.auth.credentials import AnonymousCredentials
from google.auth.transport.requests import AuthorizedSession

from gke_inference.catalogue.quotas import metric
from infra.estimate.quota_check import Limit, State, request, standings
from infra.estimate.quota_needs import Need, Part, needs
from infra.plan import resolve
from infra.reading.load import read
from scripts.operate import up
from scripts.operate.refusals import refuse_shortage
from scripts.plan.quota import has_credentials, quota
from scripts.shared import google_clients
from scripts.shared.google_cloud import Cloud
from scripts.shared.quota_limits import Against, CloudLimits, limit_in, twin_limits
from scripts.terminal.console import CheckFailedError, CommandError
from scripts.terminal.output import Output
from tests.unit.bootstrap.fake_google import FakeGoogle, refused
from twin.host.paths import TwinPaths
from twin.world.capacity import Claim, World
from twin.world.capacity_ledger import Ledger
from twin.world.quota import QuotaLine

PROJECT = "acme-inference-local"
SHORT = "quota-short"
INFOS = f"cloudquotas.googleapis.com/v1/projects/{PROJECT}/locations/global"
COMPUTE = f"compute.googleapis.com/compute/v1/projects/{PROJECT}"


def need(name: str = "CPUS", amount: int = 10, region: str | None = "us-central1") -> Need:
    return Need(metric(name), region, "machine", (Part("nodes", amount),))


@pytest.fixture
def twin(tmp_path, monkeypatch) -> TwinPaths:
    """Give this test a twin of its own, which does not run."""
    monkeypatch.setenv("GKE_INFERENCE_TWIN_DIR", str(tmp_path / "twin"))
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    return TwinPaths.default()


@pytest.fixture
def google() -> Iterator[FakeGoogle]:
    fake = FakeGoogle()
    fake.services |= {"cloudquotas.googleapis.com", "compute.googleapis.com"}
    fake.resources |= {
        COMPUTE: {"quotas": [_listed("GPUS_ALL_REGIONS", 2, 1), _listed("NETWORKS", 5, 1)]},
        f"{COMPUTE}/regions/us-central1": {
            "quotas": [_listed("NVIDIA_L4_GPUS", 8, 4), _listed("CPUS", 24, 20)]
        },
        f"{INFOS}/services/compute.googleapis.com/quotaInfos": {
            "quotaInfos": [
                _info("TPUS-PER-TPU-FAMILY-per-project-region", ({"tpu_family": "CT6E"}, "32")),
                _info("NVIDIA-L4-GPUS-per-project-region", ({"region": "us-central1"}, "16")),
                _info("GPUS-ALL-REGIONS-per-project", ({}, None)),
                _info("NETWORKS-per-project", ({}, "-1")),
            ]
        },
    }
    yield fake
    fake.close()


def _listed(name: str, limit: float, usage: float) -> dict[str, Any]:
    return {"metric": name, "limit": limit, "usage": usage}


def _info(quota_id: str, *values: tuple[dict[str, str], str | None]) -> dict[str, Any]:
    entries = [
        {"dimensions": dimensions, "details": {} if value is None else {"value": value}}
        for dimensions, value in values
    ]
    return {"quotaId": quota_id, "dimensionsInfos": entries}


@pytest.fixture
def connected(google, twin, monkeypatch) -> Iterator[Cloud]:
    """Let the command reach the server that stands in for Google."""
    del twin
    session: Any = AuthorizedSession(AnonymousCredentials())
    found = Cloud(PROJECT, session, f"{google.address}/")
    monkeypatch.setattr(google_clients, "connect", lambda _: found)
    yield found
    session.close()


def printed(capsys, **options: Any) -> dict[str, Any]:
    """Run the command; return its JSON with the exit code."""
    code = 0
    try:
        quota("local", output=Output.JSON, **options)
    except typer.Exit as ended:
        code = ended.exit_code
    return {"code": code, **json.loads(capsys.readouterr().out)}


def by_quota(answer: dict[str, Any]) -> dict[str, Any]:
    return {row["quota"]: row for row in answer["needs"]}


@pytest.mark.parametrize(
    ("limit", "state", "short_by"),
    [
        (None, State.UNKNOWN, 0),
        (Limit(None, 500), State.UNLIMITED, 0),
        (Limit(10, 0), State.ENOUGH, 0),
        (Limit(9), State.SHORT, 1),
        (Limit(12, 3), State.TIGHT, 0),
        (Limit(0), State.SHORT, 10),
    ],
)
def test_an_ask_is_enough_tight_short_or_unknown(limit, state, short_by):
    (found,) = standings([need()], lambda _: limit)
    assert (found.state, found.short_by) == (state, short_by)


def test_what_others_use_is_asked_for_beside_the_stack():
    (found,) = standings([need()], lambda _: Limit(12, 3), beside_others=True)
    assert (found.state, found.short_by, found.wanted) == (State.SHORT, 1, 13)


def test_what_a_reservation_holds_is_not_counted_twice():
    reserved = replace(need("TPUS_PER_TPU_FAMILY"), provisioning=("reservation",))
    (found,) = standings([reserved], lambda _: Limit(10, 10), beside_others=True)
    assert (found.state, found.wanted) == (State.ENOUGH, 10)


def test_a_request_has_every_dimension_and_the_whole_value():
    (tpu,) = [each for each in needs(resolve(read("local"))) if each.accelerator == "tpu-v6e"]
    (found,) = standings([tpu], lambda _: Limit(4))
    made = request(found, PROJECT, "ops@acme.example")
    words = shlex.split(made.command)
    assert words[:5] == ["gcloud", "beta", "quotas", "preferences", "create"]
    assert {
        "--quota-id=TPUS-PER-TPU-FAMILY-per-project-region",
        "--preferred-value=20",
        "--dimensions=region=us-central1,tpu_family=CT6E",
        "--email=ops@acme.example",
    } <= set(words)
    assert made.url.endswith(f"/v1/projects/{PROJECT}/locations/global/quotaPreferences")
    assert made.body["dimensions"] == {"region": "us-central1", "tpu_family": "CT6E"}
    assert made.body["quotaConfig"] == {"preferredValue": "20"}


def test_a_quota_of_the_project_is_asked_for_without_dimensions():
    (found,) = standings([need("NETWORKS", 3, None)], lambda _: Limit(1))
    made = request(found, PROJECT)
    assert "--dimensions" not in made.command
    assert "dimensions" not in made.body


def test_a_twin_that_nobody_limited_compares_nothing_and_says_so(twin, capsys):
    quota("local", against=Against.TWIN)
    assert "none checked: this twin has no limits" in capsys.readouterr().out
    answer = printed(capsys)
    assert (answer["code"], answer["against"], answer["is_short"]) == (0, "twin", False)
    assert {row["state"] for row in answer["needs"]} == {"no limit"}


def test_credentials_that_are_named_and_not_there_are_no_reason_to_ask_the_twin(monkeypatch):
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere.json")
    with pytest.raises(CommandError, match="GOOGLE_APPLICATION_CREDENTIALS: must be a file, got"):
        quota("local")


def test_a_scenario_brings_limits_and_each_shortage_has_its_request(twin, capsys):
    answer = printed(capsys, scenario=SHORT)
    assert (answer["code"], answer["is_short"]) == (1, True)
    rows = by_quota(answer)
    spot = rows["PREEMPTIBLE_NVIDIA_L4_GPUS"]
    assert (spot["asks"], spot["limit"], spot["short_by"]) == (6, 0, 6)
    assert spot["provisioning"] == ["spot"]
    assert "request" in spot
    assert rows["CPUS"]["state"] == "enough"
    assert "request" not in rows["CPUS"]
    assert rows["IN_USE_ADDRESSES"]["in_use"] is None
    assert rows["GPUS_ALL_REGIONS"]["region"] is None


def test_the_limits_of_a_running_twin_are_those_of_its_world_with_what_is_in_use(twin, capsys):
    line = QuotaLine(region="us-central1", accelerator="nvidia-l4", chips=8)
    World(quota=(line,)).save(twin.capacity_file)
    cluster = twin.clusters / "c"
    cluster.mkdir(parents=True)
    held = Claim("n", "us-central1-b", "nvidia-l4", "on-demand", 4)
    assert Ledger(twin, cluster, "acme", "autoscaler").acquire([held]).granted
    row = by_quota(printed(capsys))["NVIDIA_L4_GPUS"]
    assert (row["limit"], row["in_use"], row["state"]) == (8, 4, "tight")
    assert printed(capsys, beside_others=True)["code"] == 1


def test_the_table_shows_what_is_short_and_why(twin, capsys):
    with pytest.raises(typer.Exit) as ended:
        quota("local", scenario=SHORT, explain=True)
    assert ended.value.exit_code == 1
    said = capsys.readouterr().out
    assert "23 quotas against the limits of the twin: 4 insufficient" in said
    assert "more nodes in an upgrade" in said
    assert said.count("gcloud beta quotas preferences create") == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scenario": "drought"}, r"^--scenario: must be one of .*quota-short.*, got 'drought'"),
        ({"scenario": SHORT, "against": Against.CLOUD}, "--scenario: must be omitted"),
        ({"stack": "prud"}, "^--stack: must be one of .*, got 'prud'"),
    ],
)
def test_options_that_do_not_go_are_one_message(twin, options, message):
    given: dict[str, Any] = {"stack": "local"}
    with pytest.raises(CommandError, match=message):
        quota(**given | options)


def test_up_is_refused_when_short_before_anything_starts(twin, monkeypatch):
    monkeypatch.setattr(up, "Engine", lambda *_: pytest.fail("the engine was started"))
    with pytest.raises(CheckFailedError) as error:
        up.up("local", scenario=SHORT)
    said = str(error.value)
    assert "\n" not in said
    assert "NVIDIA_L4_GPUS in us-central1 needs 6, limit 1, missing 5" in said
    assert "--over-quota" in said
    assert "gke-inference quota --stack local --scenario quota-short" in said
    assert not twin.root.exists()


def test_up_goes_on_over_quota_when_told_so(twin, monkeypatch):
    class Started(Exception):
        pass

    def start(*_: object) -> None:
        raise Started

    monkeypatch.setattr(up, "ensure_tools", start)
    with pytest.raises(Started):
        up.up("local", scenario=SHORT, over_quota=True)


def test_a_stack_within_the_limits_is_not_refused(twin):
    refuse_shortage("local")
    refuse_shortage("local", "tpu-stockout")


def test_the_cloud_is_asked_only_where_there_are_credentials(twin, tmp_path, monkeypatch):
    assert not has_credentials()
    (tmp_path / "application_default_credentials.json").write_text("{}")
    assert has_credentials()


def test_a_project_has_limits_by_family_and_usage_beside_them(connected, google, capsys):
    answer = printed(capsys, against=Against.CLOUD)
    rows = by_quota(answer)
    assert rows["TPUS_PER_TPU_FAMILY"]["limit"] == 32
    assert (rows["NVIDIA_L4_GPUS"]["limit"], rows["NVIDIA_L4_GPUS"]["in_use"]) == (16, 4)
    assert (rows["CPUS"]["limit"], rows["CPUS"]["state"]) == (24, "tight")
    assert (rows["GPUS_ALL_REGIONS"]["limit"], rows["GPUS_ALL_REGIONS"]["short_by"]) == (0, 6)
    assert (rows["NETWORKS"]["limit"], rows["NETWORKS"]["state"]) == (None, "no limit")
    assert rows["SSD_TOTAL_GB"]["state"] == "unknown"
    assert answer["code"] == 1
    assert all(method == "GET" for method, _ in google.calls)


def test_without_cloud_quotas_the_lists_of_compute_engine_remain(connected, google, capsys):
    google.services.discard("cloudquotas.googleapis.com")
    answer = printed(capsys, against=Against.CLOUD)
    rows = by_quota(answer)
    assert rows["NVIDIA_L4_GPUS"]["limit"] == 8
    assert rows["TPUS_PER_TPU_FAMILY"]["state"] == "unknown"
    assert any(
        "gcloud services enable cloudquotas.googleapis.com" in note for note in answer["notes"]
    )


def test_a_project_that_cannot_be_read_is_one_message(connected, google):
    google.refusals[COMPUTE] = refused(403, "Required 'compute.projects.get' permission")
    with pytest.raises(CommandError, match=r"acme-inference-local: no permission at compute\."):
        quota("local", against=Against.CLOUD)


def test_pages_of_quotas_are_read_to_the_last(connected, google, monkeypatch):
    pages = {"": (["A"], "next"), "next": (["B"], "")}
    path = f"{INFOS}/services/compute.googleapis.com/quotaInfos"
    answer = google.answer

    def paged(method: str, where: str, query: dict[str, str], body: Any):
        if where != path:
            return answer(method, where, query, body)
        ids, token = pages[query.get("pageToken", "")]
        return 200, {"quotaInfos": [_info(name) for name in ids], "nextPageToken": token}

    monkeypatch.setattr(google, "answer", paged)
    assert set(CloudLimits(connected, [])._infos) == {"A", "B"}


@pytest.mark.parametrize(
    ("wanted", "value"),
    [
        ({"region": "us-central1", "vm_family": "C4"}, 24),
        ({"region": "us-east1", "vm_family": "C4"}, 8),
        ({"region": "us-central1", "vm_family": "N4"}, 100),
        ({"region": "us-east1", "vm_family": "N4"}, 0),
        ({"region": "us-west1", "vm_family": "N4"}, None),
    ],
)
def test_the_entry_with_most_of_the_dimensions_holds(wanted, value):
    info = _info(
        "CPUS-PER-VM-FAMILY-per-project-region",
        ({"region": "us-central1", "vm_family": "C4"}, "24"),
        ({"vm_family": "c4"}, "8"),
        ({"region": "us-central1"}, "100"),
        ({}, None),
    )
    info["dimensionsInfos"][3]["applicableLocations"] = ["us-east1"]
    assert limit_in(info, wanted) == value


def test_the_scenario_is_short_of_what_the_local_stack_asks(twin):
    asked = standings(needs(resolve(read("local"))), twin_limits(SHORT))
    short = {each.need.metric.name for each in asked if each.short_by}
    assert short == {
        "TPUS_PER_TPU_FAMILY",
        "NVIDIA_L4_GPUS",
        "PREEMPTIBLE_NVIDIA_L4_GPUS",
        "GPUS_ALL_REGIONS",
    }


@pytest.mark.parametrize("email", ["", "ops", "ops@example", "ops @example.com", "a@b@c.de"])
def test_a_contact_that_is_no_address_is_refused_before_anything_is_asked(monkeypatch, email):
    monkeypatch.setattr("scripts.plan.quota.plan_of", lambda _: pytest.fail("it went on"))
    with pytest.raises(CommandError, match=r"^--email: must be an address such as .*, got"):
        quota("local", email=email)


def test_a_wrong_world_of_the_twin_is_one_line(twin):
    twin.root.mkdir(parents=True)
    twin.capacity_file.write_text("stock: [{zone: a, accelerator: b, chips: many}]")
    with pytest.raises(CommandError, match=r"^capacity\.yaml: stock\[0\]\.chips: .*'many'$"):
        quota("local", against=Against.TWIN)
