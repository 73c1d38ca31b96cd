"""Inputs of components: read into the declared types, or refused with every problem."""

import inspect
from collections.abc import Mapping
from typing import Annotated, Any, NotRequired, TypedDict, cast

import pulumi
import pytest
from pydantic import Field

from gke_inference.base.checked import checked, keep
from gke_inference.base.inputs import camel
from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.typed_inputs import InputErrors, document_of, typed_inputs
from gke_inference.plugin import COMPONENTS
from gke_inference.settings import Settings, Word

pytestmark = pytest.mark.usefixtures("recorder")  # outputs need its event loop


class Color(Word):
    """A word."""

    RED = "red"
    BLUE = "blue"


class Part(Settings):
    """Settings inside the inputs."""

    max_nodes: int = Field(ge=1, le=9)
    """Nodes."""
    colors: tuple[Color, ...] = ()
    """Colors."""


class Args(TypedDict):
    """Inputs."""

    pool_name: str
    """Name."""
    bucket: NotRequired[pulumi.Input[str]]
    """Bucket."""
    parts: NotRequired[Annotated[dict[str, Part], Field(max_length=2)]]
    """Parts by name."""
    run_hours: NotRequired[Annotated[int, Field(ge=1, le=168)]]
    """Hours."""
    texts: NotRequired[list[pulumi.Input[str]]]
    """Texts."""


def read(**args: Any) -> Args:
    return typed_inputs(Args, {"pool_name": "a", **args})


def problems(**args: Any) -> list[str]:
    with pytest.raises(InputErrors) as refused:
        read(**args)
    return [str(problem) for problem in refused.value.problems]


def test_settings_come_from_a_mapping_as_other_languages_send_it():
    found = read(parts={"x": {"max_nodes": 4.0, "colors": ["red"]}}, run_hours=12.0)
    assert found == {
        "pool_name": "a",
        "parts": {"x": Part(max_nodes=4, colors=(Color.RED,))},
        "run_hours": 12,
    }
    assert isinstance(found.get("run_hours"), int)


def test_settings_that_are_an_instance_stay_the_same_object():
    part = Part(max_nodes=2)
    assert read(parts={"x": part}).get("parts", {})["x"] is part


def test_an_output_passes_where_the_engine_may_know_the_value_later():
    output = pulumi.Output.from_input("later")
    found = read(bucket=output, texts=["now", output])
    assert found.get("bucket") is output
    assert found.get("texts", [])[1] is output


def test_an_output_is_refused_where_the_value_decides_what_is_built():
    assert problems(run_hours=pulumi.Output.from_input(3)) == [
        "run_hours: must be known before the deployment, got an output"
    ]


def test_inputs_that_are_none_count_as_not_given():
    assert read(bucket=None, run_hours=None) == {"pool_name": "a"}


def test_every_problem_is_reported_at_once_where_the_user_wrote_it():
    assert problems(
        parts={"x": {"max_nodes": 0}, "y": {"max_nodes": 3, "color": "red"}}, run_hours=169
    ) == [
        "parts.x.max_nodes: must be 1 to 9, got 0",
        "parts.y.color: is not a field of Part; did you mean 'colors'?",
        "run_hours: must be 1 to 168, got 169",
    ]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"pool": "a"}, "pool: is not an input; did you mean 'pool_name'?"),
        ({"pool_name": None}, "pool_name: is required"),
        ({"pool_name": 3}, "pool_name: must be text, got 3 (put it in quotes)"),
        ({"run_hours": True}, "run_hours: must be a whole number, got true"),
        ({"run_hours": 1.5}, "run_hours: must be a whole number, got 1.5"),
        ({"run_hours": "7"}, "run_hours: must be a whole number, got '7' (without the quotes)"),
        ({"texts": "a"}, "texts: must be a list, got 'a'"),
        ({"parts": []}, "parts: must be a mapping of names to values, got []"),
        ({"parts": {"x": 3}}, "parts.x: must be a mapping of fields, got 3"),
        (
            {"parts": {"x": {"max_nodes": 1, "colors": ["green"]}}},
            "parts.x.colors[0]: must be one of red, blue, got 'green'",
        ),
        (
            {"parts": {name: {"max_nodes": 1} for name in "abc"}},
            "parts: must have at most 2 entries, got 3",
        ),
        ({"bucket": 3}, "bucket: must be text, got 3 (put it in quotes)"),
    ],
)
def test_a_wrong_input_is_refused_with_field_rule_and_value(args, message):
    assert problems(**args) == [message]


def test_fields_are_spelled_as_other_languages_do_but_not_the_names_that_users_chose():
    with pytest.raises(pulumi.InputPropertyError) as refused:
        checked(Args, {"pool_name": "a", "parts": {"my_part": {"max_nodes": 0}}})
    assert refused.value.property_path == "parts.my_part.maxNodes"
    assert refused.value.reason == "must be 1 to 9, got 0"


def test_several_problems_reach_the_engine_together():
    with pytest.raises(pulumi.InputPropertiesError) as refused:
        checked(Args, {"run_hours": 0})
    found = {each["property_path"]: each["reason"] for each in refused.value.errors or []}
    assert found == {"poolName": "is required", "runHours": "must be 1 to 168, got 0"}


def test_rules_between_fields_are_reported_like_those_of_one_field():
    with pytest.raises(pulumi.InputPropertyError) as refused:
        keep([InputError("parts[0].max_nodes", "must be even", 3)])
    assert refused.value.property_path == "parts[0].maxNodes"
    assert refused.value.reason == "must be even, got 3"
    keep([])


def test_a_document_has_only_what_somebody_set():
    assert document_of({"a": Part(max_nodes=2), "b": [1.0]}) == {
        "a": {"max_nodes": 2},
        "b": [1],
    }


def inputs_of(component: type[pulumi.ComponentResource]) -> Any:
    return inspect.get_annotations(component.__init__)["args"]


def refusals(
    recorder: Any, component: type[pulumi.ComponentResource], args: Mapping[str, object]
) -> dict[str, str]:
    make = cast("Any", component)
    with pytest.raises((pulumi.InputPropertyError, pulumi.InputPropertiesError)) as refused:
        recorder.run(lambda: make("it", args).urn)
    error = refused.value
    if isinstance(error, pulumi.InputPropertyError):
        return {error.property_path: error.reason}
    return {each["property_path"]: each["reason"] for each in error.errors or []}


every_component = pytest.mark.parametrize("component", COMPONENTS, ids=lambda each: each.__name__)


@every_component
def test_every_component_refuses_an_unknown_input_and_names_all_that_are_missing(
    recorder: Any, component: type[pulumi.ComponentResource]
):
    found = refusals(recorder, component, {"no_such_input": 1})
    assert found.pop("noSuchInput").startswith("is not an input; ")
    required = inputs_of(component).__required_keys__
    assert found == {camel(name): "is required" for name in required}


@every_component
def test_every_component_refuses_inputs_of_another_type_with_rule_and_value(
    recorder: Any, component: type[pulumi.ComponentResource]
):
    names = inputs_of(component).__annotations__
    found = refusals(recorder, component, {name: [[]] for name in names})  # no input is such a list
    assert {path.split("[")[0] for path in found} == {camel(name) for name in names}
    for reason in found.values():
        assert reason.startswith("must be ")
        assert ", got [" in reason
