"""The faster registration of resources has the same results as the SDK's own."""

import asyncio
import importlib
import traceback
from typing import Any

import pulumi
import pytest

from twin.pulumi.speedups import sdk_registration

resource: Any = importlib.import_module("pulumi.runtime.resource")
depends_on: Any = importlib.import_module("pulumi.runtime._depends_on")
ContextProperty: Any = importlib.import_module("pulumi._utils").ContextProperty


@pytest.fixture
def patched(monkeypatch):
    """The SDK's parts, patched and put back afterwards."""
    monkeypatch.setattr(resource, "traceback", traceback)
    monkeypatch.setattr(
        resource, "_get_source_position_for_frame", resource._get_source_position_for_frame
    )
    monkeypatch.setattr(depends_on, "_resolve_depends_on", depends_on._resolve_depends_on)
    monkeypatch.setattr(resource, "create_urn", resource.create_urn)
    monkeypatch.setattr(ContextProperty, "__get__", ContextProperty.__get__)
    sdk_registration.register_quickly()


class _Settings:
    text = ContextProperty(name="text of this test", default="a default")
    table = ContextProperty(name="table of this test", default=None)


def test_a_setting_has_its_default_then_what_was_set_and_a_mapping_is_read_by_key(patched):
    settings: Any = _Settings()
    assert settings.text == "a default"
    settings.text = "another"
    assert settings.text == "another"
    settings.table = {"key": "value"}
    assert isinstance(settings.table, ContextProperty)
    assert settings.table["key"] == "value"
    assert isinstance(_Settings.text, ContextProperty)


class _Base:
    def __init__(self) -> None:
        self.trace = resource._get_stack_trace()


class _Custom(_Base):
    def __init__(self) -> None:
        super().__init__()


class _Concrete(_Custom):
    def __init__(self) -> None:
        super().__init__()


def test_the_source_positions_are_those_of_the_sdk(monkeypatch, patched):
    own = (traceback, sdk_registration._position)
    both = []
    for module, position in (
        (resource.traceback, resource._get_source_position_for_frame),
        own,
    ):
        monkeypatch.setattr(resource, "traceback", module)
        monkeypatch.setattr(resource, "_get_source_position_for_frame", position)
        both.append(_Concrete().trace)
    assert both[0] == both[1]
    top = both[0].frames[0].pc
    assert top.uri.endswith("/test_sdk_registration.py")
    assert top.line > 0


def test_the_rest_of_the_module_is_as_it_was(patched):
    assert resource.traceback.format_exc is traceback.format_exc


def test_listed_resources_are_the_dependencies_without_an_output_of_each(patched, monkeypatch):
    monkeypatch.setattr(sdk_registration, "_resolve", None)
    one, two = (object.__new__(pulumi.Resource) for _ in range(2))
    assert asyncio.run(depends_on._resolve_depends_on([one, two, one])) == {one, two}


def test_anything_else_is_resolved_by_the_sdk(patched, monkeypatch):
    async def asked(listed):
        return {"by the SDK", *listed}

    monkeypatch.setattr(sdk_registration, "_resolve", asked)
    found = asyncio.run(depends_on._resolve_depends_on(["an output"]))
    assert found == {"by the SDK", "an output"}


@pytest.mark.parametrize(
    "given",
    [
        ("a", "x:y:Z", "urn:pulumi:s::p::x:y:Parent::b"),
        ("a", "x:y:Z", None, "p", "s"),
        ("a", "x:y:Z"),
    ],
)
def test_a_urn_of_plain_texts_is_that_of_the_sdk_in_one_output(patched, monkeypatch, given):
    monkeypatch.setattr(sdk_registration._settings, "get_stack", lambda: "this-stack")
    monkeypatch.setattr(sdk_registration._settings, "get_project", lambda: "this-project")

    own = sdk_registration._urn

    async def both() -> list[str | None]:
        return [await urn(*given).future() for urn in (own, resource.create_urn)]

    monkeypatch.setattr(sdk_registration, "_urn", None)  # a call of it would fail
    of_the_sdk, found = asyncio.run(both())
    assert found == of_the_sdk
    assert str(found).endswith("x:y:Z::a")


def test_a_urn_with_a_parent_that_is_not_known_yet_is_left_to_the_sdk(patched, monkeypatch):
    monkeypatch.setattr(sdk_registration, "_urn", lambda *given: given)
    parent = object()
    found = resource.create_urn("a", "x:y:Z", parent)
    assert found == ("a", "x:y:Z", parent, None, None)
