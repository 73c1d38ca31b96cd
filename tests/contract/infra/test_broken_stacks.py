"""A stack with one fault gives one message, in the user's words, before anything is registered."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from infra.reading.load import (
    KEY,
    PROJECT,
    STACKS,
    parse,
    platform_of,
    read,
    settings_in,
)
from infra.stack.problems import StackError
from tests.contract.infra.broken_stacks import BrokenStack, broken_stacks, edited, folder_of
from tests.shipped_stacks import FILES

BROKEN = broken_stacks()
MISTAKES: list[dict[str, Any]] = yaml.load(
    Path(__file__).with_name("likely_mistakes.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader
)


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.name)
def test_a_broken_stack_gives_one_message_that_names_field_rule_and_value(
    broken: BrokenStack,
) -> None:
    with pytest.raises(StackError) as refused:
        parse(json.dumps(broken.platform), partial(settings_in, folder_of(broken.base)))
    assert broken.expect in str(refused.value)
    assert len(refused.value.problems) == 1
    assert "\n" not in str(refused.value)
    assert "pydantic" not in str(refused.value)


def test_there_are_thirty_broken_stacks_and_more() -> None:
    assert len(BROKEN) >= 30


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: ".".join(map(str, each["at"])))
def test_a_likely_mistake_gives_exactly_this_message(mistake: dict[str, Any]) -> None:
    with pytest.raises(StackError) as refused:
        parse(json.dumps(edited("prod", [mistake])))
    assert str(refused.value) == mistake["message"]


@pytest.mark.parametrize("name", ["local", "dev", "staging", "prod"])
def test_the_stacks_of_the_repository_have_no_fault(name: str) -> None:
    assert read(name).models


def test_every_fault_is_reported_at_once() -> None:
    platform = platform_of(STACKS / "Pulumi.local.yaml")
    platform["models"]["llama-3.1-8b"]["replicas"]["min"] = 9
    platform["storage"] = {"soft_delete_days": 3}
    with pytest.raises(StackError) as refused:
        parse(json.dumps(platform))
    assert [problem.path for problem in refused.value.problems] == [
        "models.llama-3.1-8b.replicas.min",
        "storage.soft_delete_days",
    ]


def test_a_name_that_does_not_exist_is_one_message_with_every_place_that_has_it() -> None:
    platform = edited("backends/backends", [{"at": ["backends", "claude"], "remove": True}])
    with pytest.raises(StackError) as refused:
        parse(json.dumps(platform))
    (problem,) = refused.value.problems
    assert problem.path == "clients.teams.assistant.models[1]"
    assert problem.message.endswith("got 'claude' (also clients.prices.claude)")


def test_a_name_that_does_not_exist_hides_what_other_rules_say_of_it() -> None:
    platform = edited(
        "guardrails/guarded",
        [{"at": ["models", "llama-3.1-8b", "guardrails"], "value": ["armour"]}],
    )
    with pytest.raises(StackError) as refused:
        parse(json.dumps(platform))
    assert len(refused.value.problems) == 1
    assert str(refused.value).endswith("got 'armour'; did you mean 'armor'?")


def test_a_zone_of_another_region_is_the_only_message_in_every_stack_that_names_it() -> None:
    for file in FILES:
        document = platform_of(file)
        if "regions" not in document:
            continue
        for region in document["regions"].values():
            region["zones"][-1] = "southamerica-east1-a"
            break
        with pytest.raises(StackError) as refused:
            parse(json.dumps(document))
        assert [problem.value for problem in refused.value.problems] == ["southamerica-east1-a"]


def test_a_stack_file_that_is_no_yaml_is_named(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.x.yaml").write_text("config: [")
    with pytest.raises(StackError, match=r"^Pulumi\.x\.yaml is not YAML: "):
        read("x", tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "config: {}", "config: {gke-inference:other: 1}"])
def test_a_stack_file_without_a_platform_says_what_it_must_have(tmp_path: Path, text: str) -> None:
    (tmp_path / "Pulumi.x.yaml").write_text(text)
    with pytest.raises(StackError, match="must have config: gke-inference:platform:"):
        read("x", tmp_path)


def test_a_stack_that_does_not_exist_is_answered_with_those_that_do() -> None:
    with pytest.raises(StackError, match=r"^stack must be one of .*'prd'; did you mean 'prod'\?"):
        read("prd")


def test_a_platform_that_is_no_mapping_is_refused() -> None:
    with pytest.raises(
        StackError, match=r"^gke-inference:platform must be a mapping of fields, got 3"
    ):
        parse("3")


def test_text_that_is_no_json_is_refused_in_one_line() -> None:
    with pytest.raises(StackError) as refused:
        parse("{")
    assert "\n" not in str(refused.value)


def test_the_engine_without_a_platform_is_told_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from infra.reading import load  # noqa: PLC0415 - beside the patch of what it reads

    monkeypatch.setattr(pulumi.Config, "get", lambda self, key: None)
    with pytest.raises(StackError, match=f"{PROJECT}:{KEY} is required"):
        load.load()


def test_words_that_only_old_yaml_reads_as_true_stay_words(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.x.yaml").write_text(
        "config: {gke-inference:platform: {a: yes, b: true, c: 2026-01-03}}"
    )
    assert platform_of(tmp_path / "Pulumi.x.yaml") == {"a": "yes", "b": True, "c": "2026-01-03"}
