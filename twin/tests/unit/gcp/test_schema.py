"""The constraint data against the installed SDK, and properties that hold for every resource."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import twin.providers.gcp.schema as package
from twin.providers.gcp.checks.defaults import fill_in, with_every_default, without_lists
from twin.providers.gcp.checks.diff import changes
from twin.providers.gcp.checks.validate import validate_inputs
from twin.providers.gcp.checks.validators import value_problems
from twin.providers.gcp.schema import Field, resource, sdk, source, tokens

_WORDS = {"string", "int", "float", "bool", "asset", "object", "list", "set", "map", "any"}


def test_the_data_names_its_source_and_date() -> None:
    assert source() == ("hashicorp/terraform-provider-google-beta@93c65b2d60", "2026-08-21")
    assert len(tokens()) == 121


@pytest.mark.parametrize("token", tokens())
def test_every_property_is_one_the_installed_sdk_knows(token: str) -> None:
    known = resource(token)
    assert known is not None
    arguments = sdk.argument_types(token)
    assert arguments is not None, "the SDK has no such resource"
    state = sdk.state_types(token)
    for name, field in known.fields.items():
        types = state if field.is_output_only else arguments
        assert name in types, f"{token}: {name}"
        _compare(f"{token}: {name}", field, types[name])


def _compare(where: str, field: Field, kind: Any) -> None:
    assert field.kind in _WORDS, where
    nested = sdk.nested_types(kind)
    inputs = {name for name, child in field.block.children.items()}
    if inputs:
        assert inputs <= set(nested), f"{where}: the SDK lacks {inputs - set(nested)}"
    for name, child in field.block.children.items():
        _compare(f"{where}.{name}", child, nested[name])


@pytest.mark.parametrize("token", tokens())
def test_a_made_up_property_is_refused_everywhere(token: str) -> None:
    known = resource(token)
    assert known is not None
    for field in [known.root, *known.root.walk()]:
        assert "madeUpProperty" not in field.block.children
    found = {failure.path for failure in validate_inputs(token, {"madeUpProperty": 1})}
    assert "madeUpProperty" in found


def _constrained() -> list[tuple[str, Field]]:
    found: list[tuple[str, Field]] = []
    for token in tokens():
        known = resource(token)
        assert known is not None
        found += [(token, field) for field in known.root.walk() if field.rules]
    return found


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_bounds_and_enums_accept_exactly_what_they_name(data: Any) -> None:
    _, field = data.draw(st.sampled_from(_CONSTRAINED))
    rules = field.rules
    if "enum" in rules and field.kind == "string":
        allowed = data.draw(st.sampled_from(rules["enum"]))
        assert not [p for p in value_problems(field, allowed) if "one of" in p]
        other = data.draw(st.text(min_size=1).filter(lambda t: t.lower() not in _lower(rules)))
        assert any("one of" in problem for problem in value_problems(field, other))
    if "min" in rules or "max" in rules:
        number = data.draw(st.integers(-(10**6), 10**6))
        low, high = rules.get("min", -(10**9)), rules.get("max", 10**9)
        bound = [
            p
            for p in value_problems(field, number)
            if "at least" in p or " to " in p or "at most" in p
        ]
        assert bool(bound) == (not low <= number <= high)


def _lower(rules: dict[str, Any]) -> set[str]:
    return {str(item).lower() for item in rules["enum"]}


_CONSTRAINED = _constrained()


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_inputs_never_differ_from_themselves_and_defaults_change_nothing_twice(data: Any) -> None:
    known = resource(data.draw(st.sampled_from(tokens())))
    assert known is not None
    inputs = _inputs(data, known.root, depth=2)
    filled = fill_in(known, inputs)
    assert fill_in(known, inputs, filled) == filled
    assert without_lists(fill_in(known, without_lists(filled))) == without_lists(filled)
    plain = without_lists(filled)
    assert changes(known, plain, plain) == []
    assert changes(known, with_every_default(known.root, plain), plain) == []


def _inputs(data: Any, field: Field, depth: int) -> dict[str, Any]:
    settable = [child for child in field.children.values() if not child.is_output_only]
    chosen = data.draw(st.lists(st.sampled_from(settable), max_size=4)) if settable else []
    values = {child.name: _sample(data, child, depth) for child in chosen}
    return {key: value for key, value in values.items() if value is not None}


def _sample(data: Any, field: Field, depth: int) -> Any:
    scalars = {"string": "a", "int": 1, "float": 0.5, "bool": True}
    if field.kind in scalars:
        return field.rules.get("enum", [scalars[field.kind]])[0]
    if field.kind == "map":
        return {"key": "value"}
    if depth == 0 or field.kind in ("asset", "any"):
        return None
    if field.kind == "object":
        return _inputs(data, field, depth - 1)
    element = _sample(data, field.block, depth - 1)
    return [] if element is None else [element]


def test_the_product_carries_the_data_itself() -> None:
    folder = Path(package.__file__).parent / "data"
    assert len(list(folder.glob("*.json"))) == 122
