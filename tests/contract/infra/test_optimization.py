"""Jobs that optimize models in a stack: what a region builds for them, and what is refused."""

import copy
import json
from typing import Any

import pytest

from infra.estimate.stack_cost import stack_cost
from infra.plan import resolve
from infra.reading.load import parse, platform_of
from infra.stack.problems import StackError
from tests.shipped_stacks import EXAMPLES
from workloads.optimization.settings import read_evaluate, read_quantize, read_tune

_FILE = EXAMPLES / "optimization" / "Pulumi.optimization.yaml"
_NAME = "qwen3-4b-w8a8"
_READERS = {"evaluate": read_evaluate, "quantize": read_quantize, "tune": read_tune}


def edited(*edits: tuple[str, Any]) -> str:
    """Return the example after edits, each a path of keys with slashes and a value."""
    platform = copy.deepcopy(platform_of(_FILE))
    for path, value in edits:
        *way, last = path.split("/")
        place: Any = platform
        for key in way:
            place = place[int(key)] if isinstance(place, list) else place[key]
        if value is None:
            del place[last]
        else:
            place[last] = value
    return json.dumps(platform)


def objects(made: Any, kind: str) -> dict[str, Any]:
    """Return the objects of a kind in the namespace of the jobs, by name."""
    return {
        each.inputs["metadata"]["name"]: each.inputs
        for each in made.registrations
        if each.type.endswith(f":{kind}")
        if each.inputs["metadata"].get("namespace") == "jobs-models"
    }


def test_each_job_is_a_suspended_template_in_the_queue_of_the_team(deployed: Any) -> None:
    made = objects(deployed(parse(edited())), "CronJob")
    assert sorted(made) == [
        "evaluate-qwen3-4b-w8a8",
        "evaluate-sql",
        "quantize-qwen3-4b-w8a8",
        "tune-sql",
    ]
    for job in made.values():
        assert job["spec"]["suspend"] is True
        labels = job["spec"]["jobTemplate"]["metadata"]["labels"]
        assert labels["kueue.x-k8s.io/queue-name"] == "optimization"


def test_only_quantizations_and_tunings_take_the_chips_of_a_node(deployed: Any) -> None:
    made = objects(deployed(parse(edited())), "CronJob")
    limits = {
        name: container["resources"]["limits"].get("nvidia.com/gpu")
        for name, job in made.items()
        for container in job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    }
    assert limits == {
        "evaluate-qwen3-4b-w8a8": None,
        "evaluate-sql": None,
        "quantize-qwen3-4b-w8a8": "1",
        "tune-sql": "1",
    }


def test_the_programs_read_the_settings_of_their_jobs(deployed: Any) -> None:
    made = objects(deployed(parse(edited())), "ConfigMap")
    found: dict[str, Any] = {
        name: _READERS[name.partition("-")[0]](files["data"]["settings.json"])
        for name, files in made.items()
        if name.partition("-")[0] in _READERS
    }
    assert found["quantize-qwen3-4b-w8a8"].result == "qwen3-4b-w8a8"
    assert found["tune-sql"].result == "qwen3-1.7b/adapters/sql"
    canary = found["evaluate-qwen3-4b-w8a8"]
    assert (canary.candidate["version"], canary.baseline["version"]) == ("w8a8", "stable")
    adapter = found["evaluate-sql"]
    assert (adapter.candidate["model"], adapter.baseline["model"]) == ("sql", "qwen3-1.7b")


def test_the_program_accepts_the_smallest_rank(deployed: Any) -> None:
    made = objects(deployed(parse(edited(("optimization/tunings/sql/rank", 8)))), "ConfigMap")
    assert _READERS["tune"](made["tune-sql"]["data"]["settings.json"]).rank == 8


def test_cost_shows_the_price_of_an_hour_of_each_job_that_needs_chips() -> None:
    whole = stack_cost(resolve(parse(edited())))
    named = [part.what for part in whole.parts if "an hour on nvidia-l4 x1 spot: $0." in part.what]
    assert [what.partition(",")[0] for what in named] == [f"quantizations {_NAME}", "tunings sql"]


_AT = "optimization"
_QUANTIZATION = f"{_AT}/quantizations/{_NAME}"


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        ([(f"{_AT}/queue", "other")], "optimization.queue must be one of optimization, got"),
        ([(f"{_AT}/team", "other")], "optimization.team must be one of models, got 'other'"),
        (
            [(f"{_QUANTIZATION}/data", None)],
            f"optimization.quantizations.{_NAME}.data is required for scheme w8a8",
        ),
        (
            [(f"{_QUANTIZATION}/scheme", "fp8")],
            f"optimization.quantizations.{_NAME}.data must not be set for scheme fp8",
        ),
        (
            [(f"{_QUANTIZATION}/weights", "qwen3-4b")],
            f"optimization.quantizations.{_NAME}.weights must be a folder of its own: models",
        ),
        (
            [(f"{_QUANTIZATION}/weights", "new@1")],
            f"optimization.quantizations.{_NAME}.weights must be a folder of the model bucket",
        ),
        (
            [(f"{_AT}/tunings/sql/rank", 64)],
            "optimization.tunings.sql.rank must be at most models.qwen3-1.7b.adapter_rank (16)",
        ),
        (
            [(f"{_AT}/tunings/sql/model", "none")],
            "optimization.tunings.sql.model must be one of qwen3-1.7b, qwen3-4b, got 'none'",
        ),
        (
            [(f"{_AT}/evaluations/sql/data", None)],
            "optimization.evaluations.sql.tasks must be set if data is not, got none",
        ),
        (
            [(f"{_AT}/evaluations/sql/adapter", "other")],
            "optimization.evaluations.sql.adapter must be one of sql, got 'other'",
        ),
        (
            [(f"{_AT}/evaluations/sql/adapter", None)],
            "optimization.evaluations.sql.model must be a model with a canary",
        ),
        (
            [(f"{_AT}/evaluations/sql/against", "qwen3-4b")],
            "optimization.evaluations.sql.against must not be set with adapter",
        ),
        (
            [("models/qwen3-4b/canary/evaluation", "sql")],
            "models.qwen3-4b.canary.evaluation must be an evaluation of qwen3-4b without adapter",
        ),
        (
            [("models/qwen3-4b/size/parameters_billion", 70.6), ("models/qwen3-4b/size/bits", 4)],
            f"optimization.quantizations.{_NAME}.model must fit 33 GiB of main memory",
        ),
        (
            [("capacity/jobs/rungs", [
                {"accelerator": "tpu-v6e", "topology": "1x1", "provisioning": "spot"}
            ])],
            "optimization.queue must be a queue of GPUs",
        ),
        (
            [("clients", {"teams": {"chat": {}}})],
            "optimization.key_secret is required when clients have teams",
        ),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_refused_with_its_field(edits: Any, message: str) -> None:
    with pytest.raises(StackError) as refused:
        parse(edited(*edits))
    assert message in str(refused.value)
