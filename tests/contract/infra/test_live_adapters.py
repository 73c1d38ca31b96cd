"""`live_adapters` of a stack: what it becomes, and what is refused."""

import json
from typing import Any

import pytest

from gke_inference.intent.adapter_settings import AdapterFolder
from infra.deploy import serving_arguments as assemble_models
from infra.reading.load import STACKS, parse, platform_of
from infra.stack.problems import StackError
from tests.contract.infra.resolved import served_in

MODEL = "llama-3.1-8b"


def platform(**more: Any) -> Any:
    found = platform_of(STACKS / "Pulumi.local.yaml")
    found["models"][MODEL] |= more
    return parse(json.dumps(found))


def arguments(stack: Any) -> Any:
    return assemble_models.server_args(served_in(stack, MODEL, "us-central1"))


def test_the_folder_is_beside_the_weights():
    args = arguments(platform(live_adapters={}))
    assert args.get("live_adapters") == AdapterFolder(
        max_rank=16,
        slots=8,
        source="gs://acme-local-models-us-central1/llama-3.1-8b/live-adapters",
    )


def test_a_model_has_none_by_default():
    assert "live_adapters" not in arguments(platform())


CANARY = {"version": "next", "weights": "llama-3.1-8b-next"}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"live_adapters": {"max_rank": 20}}, "max_rank must be one of 1, 8, .*512, got 20"),
        ({"live_adapters": {"slots": 65}}, "slots must be 1 to 64, got 65"),
        ({"live_adapters": {"folder": "../x"}}, "folder must be a folder such as .* got '../x'"),
        (
            {"live_adapters": {}, "task": "embed", "adapters": []},
            "live_adapters must not be set when task is embed",
        ),
        ({"live_adapters": {}, "canary": CANARY}, "must not be set during a canary"),
    ],
)
def test_what_cannot_be_is_refused_when_the_stack_is_read(more: Any, message: str):
    with pytest.raises(StackError, match=message):
        platform(**more)


def test_a_model_whose_replicas_have_several_hosts_is_refused_before_anything_is_made():
    folder = STACKS.parent / "docs" / "examples" / "multi-host"
    found = platform_of(folder / "Pulumi.slices.yaml")
    parse(json.dumps(found))
    found["models"]["llama-3.1-70b"]["live_adapters"] = {}
    with pytest.raises(StackError) as refused:
        parse(json.dumps(found))
    assert [problem.sentence() for problem in refused.value.problems] == [
        "models.llama-3.1-70b.live_adapters must not be set: capacity.slices.rungs[0] spans "
        "several hosts, but a loader serves only one"
    ]
