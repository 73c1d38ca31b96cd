"""The switch that leaves the SDKs as they are."""

import asyncio
import sys
from typing import Any

import pulumi
import pytest
from pulumi.runtime import stack as sdk_stack

from twin.pulumi import speedups

stack: Any = sdk_stack


@pytest.fixture(autouse=True)
def _sdks_as_they_are(monkeypatch):
    """Whatever a test patches is put back."""
    monkeypatch.setattr(stack, "asyncio", asyncio)
    monkeypatch.setattr(pulumi.log, "debug", pulumi.log.debug)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))


def _patched():
    """Return which of the SDKs' parts are no longer their own."""
    before = (sys.meta_path[0], stack.asyncio, pulumi.log.debug)
    speedups.speed_up_imports()
    speedups.speed_up_program(shows_debugging=False)
    after = (sys.meta_path[0], stack.asyncio, pulumi.log.debug)
    names = ("imports", "waits", "debugging")
    return [name for name, old, new in zip(names, before, after, strict=True) if old is not new]


@pytest.mark.parametrize("value", [None, "", "0"])
def test_without_the_switch_imports_waits_and_debugging_are_patched(monkeypatch, value):
    monkeypatch.delenv(speedups.OFF, raising=False)
    if value is not None:
        monkeypatch.setenv(speedups.OFF, value)
    assert _patched() == ["imports", "waits", "debugging"]


@pytest.mark.parametrize("value", ["1", "true"])
def test_the_switch_leaves_the_sdks_as_they_are(monkeypatch, value):
    monkeypatch.setenv(speedups.OFF, value)
    assert _patched() == []


def test_lines_for_debugging_stay_where_the_engine_prints_them(monkeypatch):
    monkeypatch.delenv(speedups.OFF, raising=False)
    before = pulumi.log.debug
    speedups.speed_up_program(shows_debugging=True)
    assert pulumi.log.debug is before
