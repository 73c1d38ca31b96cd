"""The switch that leaves the SDKs as they are."""

import asyncio
import sys
import traceback
from typing import Any

import pulumi
import pytest
from pulumi.runtime import resource as sdk_resource
from pulumi.runtime import stack as sdk_stack

from twin.pulumi import speedups
from twin.pulumi.speedups import sdk_parts

resource: Any = sdk_resource
stack: Any = sdk_stack


@pytest.fixture(autouse=True)
def _sdks_as_they_are(monkeypatch):
    """Whatever a test patches is put back; other tests may have patched it before."""
    monkeypatch.setattr(resource, "traceback", traceback)
    monkeypatch.setattr(stack, "asyncio", asyncio)
    monkeypatch.setattr(pulumi.log, "debug", lambda _message: None)
    finders = [each for each in sys.meta_path if not isinstance(each, sdk_parts._Finder)]
    monkeypatch.setattr(sys, "meta_path", finders)


def _patched():
    """Return the patched parts of the SDKs."""
    before = (sys.meta_path[0], stack.asyncio, resource.traceback, pulumi.log.debug)
    speedups.speed_up_imports()
    speedups.speed_up_program(shows_debugging=False)
    after = (sys.meta_path[0], stack.asyncio, resource.traceback, pulumi.log.debug)
    names = ("imports", "waits", "registration", "debugging")
    return [name for name, old, new in zip(names, before, after, strict=True) if old is not new]


@pytest.mark.parametrize("value", [None, "", "0"])
def test_without_the_switch_every_part_is_patched(monkeypatch, value):
    monkeypatch.delenv(speedups.OFF, raising=False)
    if value is not None:
        monkeypatch.setenv(speedups.OFF, value)
    assert _patched() == ["imports", "waits", "registration", "debugging"]


@pytest.mark.parametrize("value", ["1", "true"])
def test_the_switch_leaves_the_sdks_as_they_are(monkeypatch, value):
    monkeypatch.setenv(speedups.OFF, value)
    assert _patched() == []


def test_lines_for_debugging_stay_where_the_engine_prints_them(monkeypatch):
    monkeypatch.delenv(speedups.OFF, raising=False)
    before = pulumi.log.debug
    speedups.speed_up_program(shows_debugging=True)
    assert pulumi.log.debug is before
