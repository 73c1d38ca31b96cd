"""Each command's table as people meet it: terminals of 80, 100 and 120 columns."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast
from unittest.mock import patch

import pytest
import typer

from infra.estimate.team_bills import Payer, Tokens
from infra.plan import resolve
from infra.reading.load import read
from planner.amount import Amount
from policies.framework.finding import Finding, Verdict
from scripts.accept import command as accept
from scripts.accept.row import Subject
from scripts.calibrate import show as calibrate
from scripts.calibrate.comparing import Comparison
from scripts.calibrate.series import Grown
from scripts.check import audit, check, preflight, preflight_cloud
from scripts.check.preflight_checks import lines
from scripts.client_keys.documents import Key
from scripts.clients import bill, reconcile, usage
from scripts.clients import command as clients
from scripts.delivery import status as delivery
from scripts.develop import doctor
from scripts.develop.doctor_checks import rows
from scripts.develop.tools import print_tools
from scripts.images import command as images
from scripts.jobs import command as jobs
from scripts.jobs.listing import QueuedJob, job_table
from scripts.models import listing as models
from scripts.models.actions import Row
from scripts.models.places import Place
from scripts.operate import timeline, trace
from scripts.plan import coldstart, cost, distance, quota, replay
from scripts.plan.claims import print_claims
from scripts.plan.plan import plan
from scripts.plan.stack import Wanted, plan_stack
from scripts.prerequisites.finding import Finding as Requirement
from scripts.prerequisites.finding import Project, State
from scripts.rehearse import show as rehearse
from scripts.rehearse import sweep_show
from scripts.rehearse.measured import Measured, ModelMeasure
from scripts.rehearse.result import Objective, spent_by
from scripts.rehearse.result import Result as RehearsalResult
from scripts.rehearse.search import Found as SweepFound
from scripts.rehearse.search import Tried
from scripts.rehearse.sweep_options import Group, Option, Setting
from scripts.shared import replica_status
from scripts.shared.deployments import deployment_of
from scripts.shared.placements import Placement
from scripts.shared.quota_limits import Against
from scripts.terminal.output import Output
from scripts.traffic import command as traffic
from simulator.demand.default_day import default_day
from simulator.demand.summary import summary_of
from simulator.engine.step_times import Compared as StepTimes
from simulator.rehearsal.accounts import Outcomes
from simulator.rehearsal.run import Bought, Rehearsal
from simulator.tests.unit.rehearsal.platforms import L4, Steady, platform
from tests.unit.scripts.table_widths import LABORATORY_ROW, check_widths, printing
from tests.unit.scripts.test_doctor import GOOD
from twin.toolchain import modules
from workloads.transfer.listing import VersionState
from workloads.transfer.versions import Home

_PLACEMENT = Placement(
    "qwen3-embedding-0.6b", "inference-staging-asia-southeast1",
    "qwen3-embedding-0.6b-gpu-7c9f8b6d5-x2x4z", "ContainerCreating",
    "nvidia-h100-mega-80gb a3-megagpu-8g flex-start", "asia-southeast1-b",
    Amount(1234.5),
)  # fmt: skip
_FINDING = Finding(
    Verdict.BROKEN, "HorizontalPodAutoscaler models/llama-3.1-8b", "spec.metrics[0]",
    "vllm:num_requests_waiting", "the engine of this version has no such metric " * 3,
    "name one of those that it has",
    "build/prod/manifests/inference-prod-us-central1/models/llama-3.1-8b.yaml",
    "metrics-exist", "inference-prod-us-central1",
)  # fmt: skip
_USED = usage.Used(
    requests=1_234_567, refused=12_345, prompt_tokens=12_345_678_901, cached_tokens=9_876_543_210,
    completion_tokens=1_234_567_890, usd=123_456.789, estimated=1234, reused=123_456,
    saved_usd=12_345.6789,
)  # fmt: skip
_DELIVERED = delivery.Delivered(
    "inference-staging-asia-southeast1", "4f1c2d3e" * 5, "0a1b2c3d" * 5,
    ("KNV2009: cannot apply HorizontalPodAutoscaler models/llama-3.1-8b: " + "denied " * 12,),
    ("llama-3.1-8b-gpu: 2 of 12 new, 10 available (exceeded its progress deadline)",),
)  # fmt: skip
_JOB = QueuedJob(
    "research-evaluations", "jobs-research", "nightly-evaluation-of-llama-3.3-70b",
    "inference-staging-asia-southeast1", "waiting for nodes", 256, "tpu-v6e-4x4-flex-start",
    "insufficient unused quota for google.com/tpu in flavor spot, 4 more needed",
)  # fmt: skip
_VERSION = Row(
    "llama-3.3-70b-instruct/adapters/support-german",
    Place(Home("acme-inference-prod-models-us-central1", "llama-3.3-70b"), ("us-central1",)),
    VersionState(
        "2026-11-22-fp8-dynamic", "half-uploaded", 12_345_678_901, 141_107_412_992,
        "2026-11-22T08:15:00Z", is_current=True, note="its manifest is missing " * 5,
    ),
    is_used=True,
)  # fmt: skip


def _waterfall() -> None:
    span = {"name": "llm request of the gateway", "service": "inference-gateway", "start": 0,
            "end": 9e9, "attributes": {}}  # fmt: skip
    found = [trace.Line(depth, span, 0.1 * depth, 0.5) for depth in range(8)]
    trace.print_table(trace._table(found, 80))


def _acceptance() -> None:
    row = Subject("certificate", "chat.example.com in asia-southeast1", "valid for a week or more")
    accept._show([row.met("expires in 61 days"), row.unseen("403: needs certificates.get " * 4)])


def _requirements() -> None:
    command = "gcloud services enable container.googleapis.com --project acme-inference-prod"
    found = [
        Requirement(
            "reservation", "v6e-prod in us-central1-b", state, "not in the zone " * 6, command
        )
        for state in State
    ]
    nothing: Any = None  # the table reads only the names
    project = Project(resolve(read("prod")), "prod", *[nothing] * 4)
    preflight_cloud._show(project, found, allow_unseen=False)


def _keys() -> None:
    key = Key("jk3v7q2mzx5a", "customer-support-emea", "0" * 64, "2026-11-22T08:15:00+00:00")
    other = replace(key, expires="2026-11-23T08:15:00+00:00")
    clients.print_keys([key, other], datetime(2026, 11, 24, tzinfo=UTC))


def _comparison() -> None:
    row = reconcile.Compared("llama-3.3-70b-instruct-fp8", "completion", 1_234_567_890, 2_345_678)
    reconcile.print_comparison([row])


def _usage() -> None:
    names = {
        "day": "2026-11-22",
        "key": "jk3v7q2mzx5a",
        "model": "llama-3.3-70b-instruct",
        "region": "asia-southeast1",
        "subject": "accounts.google.com:108342775561184310562",
        "team": "support",
    }
    row = usage.Row(tuple(names[field] for field in usage.FIELDS), _USED)
    usage.print_usage([row], usage.FIELDS)


def _bill() -> None:
    usd: dict[str, float] = dict.fromkeys(bill.COMPONENTS, 1_234_567.891)
    used = Tokens(1_234_567, 12_345_678_901, 9_876_543_210, 1_234_567_890)
    names = ("customer-support-emea", "llama-3.3-70b-instruct", "asia-southeast1")
    bill.print_bill([bill.BillRow(Payer.TEAM, names, usd, used)], bill.BILL_FIELDS[:3])


def _doctor() -> None:
    facts = replace(GOOD, python=(3, 9), packages_current=False, memory_gib=1.5, cores=1)
    doctor.print_table(doctor.table(rows(facts)))


def _stack_plan() -> None:
    plan_stack(
        Wanted("local", (), None, Against.TWIN, 1000, 200, 0.7),
        is_written=False,
        output=Output.TABLE,
    )


def _quota() -> None:
    with pytest.raises(typer.Exit):
        quota.quota("prod", scenario="quota-short", explain=True)


_EVENTS = [{"time": 1.0, "kind": "scenario.step", "message": "the reservation is withdrawn"}]
_VULNERABILITY = audit.Finding(
    "opentelemetry-exporter-otlp-proto-http",
    "1.39.0rc1",
    "GHSA-c3h9-896r-86jm",
    9.8,
    "1.39.1",
    "workloads/images/diffusion-tpu/requirements.lock",
)


def _calibration() -> None:
    keys = (
        "between_tokens", "between_seconds", "prompts", "first_seconds", "prompt_tokens",
        "cached_tokens", "queued", "queue_seconds",
    )  # fmt: skip
    found = Grown((), dict.fromkeys(keys, 2000000.0), 12)
    result = StepTimes(1.41, 1.38, 1.44, 0.0412, 0.0291, 118.4, 40)
    made = deployment_of("meta-llama/Llama-3.1-8B", "nvidia-l4", 1, ["--max-model-len=8192"])
    rung, region = "nvidia-l4 x1 on-demand, nvidia-l4 x1 spot", "northamerica-northeast2"
    names = ("llama-3.3-70b-instruct-sglang", rung, "SGLang", found)
    why = "too little data: 12 tokens; 0 of 5 scrapes with 20 steps"
    calibrate.print_comparisons(
        [
            Comparison(*names, made, result, region=region),
            Comparison(*names, made, None, why, region),
        ]
    )


def _traffic() -> None:
    day = default_day({"llama-3.3-70b-instruct": 0.05}, teams=("support",), length_hours=2)
    traffic._print(summary_of(day), "docs/examples/traffic/a-day-of-three-models.yaml")


def _rehearsal() -> None:
    ended = Rehearsal(platform(), Steady(1.0, 1), engines=cast("Any", None))
    ended.machines[Bought("llm", "us-central1", "on-demand", L4, "nvidia-l4")] = 1.0e6
    objective = Objective("llm", "ttft_p95_ms", 2000.0, 12_345.0, 12_345_678, 43_000_000)
    outcomes = Outcomes(sent=43_000_000)
    tokens = Counter({("llm", "customer-support-emea"): 12_345_678})
    with patch.object(type(ended.tally), "team_tokens", tokens):
        spent = spent_by(ended)
    rehearse.print_result(
        RehearsalResult(
            ended, outcomes, {"llm": outcomes}, (objective,), spent, {}, 100.0, 200.0, None
        )
    )


def _sweep() -> None:
    text = "models.llama-3.3-70b.autoscaling.kv_cache_percent 80 → 60"
    better = Option((Setting(("models",), 1, text),))
    models = {"llama-3.3-70b": ModelMeasure(1.0e5, 10, 0, (("ttft_p95_ms", 1, 10),))}
    measured = Measured(models, 123_456.0, 0.5, 0.0, 24.0)
    tried = [
        Tried(each, 123_456.78, excess, 0.123, 0.0123, 24.0)
        for each, excess in ((better, 0.0), (Option(), 0.1))
    ]
    group = Group(("llama-3.3-70b", "qwen3-32b"), ())
    found = SweepFound([group], [tried], [better], measured, measured, 12)
    sweep_show.print_found(found, 0.001, "2 processes")


_TABLES: tuple[tuple[str, Callable[[], object]], ...] = (
    ("accept.command", _acceptance),
    ("calibrate.show", _calibration),
    ("check.audit", lambda: audit.print_table(audit._table([_VULNERABILITY] * 2))),
    ("check.check", lambda: check.print_table(check._table([_FINDING] * 2))),
    ("check.check", lambda: check.check(list_rules=True)),
    ("check.preflight", lambda: preflight._show(list(lines(resolve(read("prod")))))),
    ("check.preflight_cloud", _requirements),
    ("clients.command", _keys),
    ("clients.reconcile", _comparison),
    ("clients.bill", _bill),
    ("clients.usage", _usage),
    ("delivery.status", lambda: delivery.print_delivered([_DELIVERED])),
    ("develop.doctor", _doctor),
    ("develop.tools", lambda: print_tools(list(modules().values()))),
    ("images.listing", lambda: images.list_images("prod")),
    ("jobs.command", lambda: jobs.print_table(job_table([_JOB]))),
    ("models.listing", lambda: models.print_list([_VERSION, replace(_VERSION, state=None)])),
    ("operate.timeline", lambda: timeline.print_events(_EVENTS, 100)),
    ("operate.trace", _waterfall),
    ("plan.claims", lambda: print_claims(Output.TABLE)),
    ("plan.coldstart", lambda: coldstart.coldstart("prod")),
    ("plan.distance", lambda: distance.distance("prod")),
    ("plan.cost plan.unit_costs", lambda: cost.cost("prod")),
    ("plan.quota", _quota),
    ("plan.replay", lambda: replay._print([LABORATORY_ROW], "a trace")),
    ("plan.show", lambda: plan("llama-3.3-70b")),
    ("plan.show", lambda: plan("flux.1-schnell")),
    ("plan.stack_show", _stack_plan),
    ("rehearse.show", _rehearsal),
    ("rehearse.sweep_show", _sweep),
    (
        "shared.replica_status",
        lambda: replica_status.print_table(replica_status.replica_table([_PLACEMENT])),
    ),
    ("traffic.command", _traffic),
)
"""Modules below `scripts` that print a table, and what makes each of them do so."""


def test_every_module_that_prints_a_table_is_tried() -> None:
    assert set(printing("scripts")) == {name for names, _ in _TABLES for name in names.split()}


@pytest.mark.parametrize(("names", "draw"), _TABLES)
def test_a_commands_table_is_whole_and_fits_at_80_100_and_120_columns(
    names, draw, monkeypatch, tmp_path
) -> None:
    monkeypatch.setenv("GKE_INFERENCE_TWIN_DIR", str(tmp_path / "twin"))
    check_widths(printing("scripts"), names, draw, monkeypatch)
