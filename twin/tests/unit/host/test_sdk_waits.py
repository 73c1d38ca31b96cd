"""Waits that a program on the twin skips, and results that it still receives."""

import asyncio
from typing import Any

import pulumi
import pytest
from pulumi.runtime import stack

from twin.pulumi.speedups import sdk_waits


@pytest.fixture
def batches(monkeypatch):
    monkeypatch.setattr(stack, "asyncio", asyncio)  # put back afterwards
    sdk_waits.wait_in_batches()
    module: Any = stack
    return module.asyncio


def test_all_outputs_are_waited_for_at_once(batches):
    async def run():
        loop = asyncio.get_running_loop()
        outputs = [loop.create_future() for _ in range(3)]
        for output in outputs:
            loop.call_soon(output.set_result, None)
        return await batches.wait(outputs, return_when=asyncio.FIRST_COMPLETED)

    done, pending = asyncio.run(run())
    assert (len(done), len(pending)) == (3, 0)


def test_one_that_fails_is_known_while_others_are_not_there(batches):
    async def run():
        loop = asyncio.get_running_loop()
        late, failed = loop.create_future(), loop.create_future()
        failed.set_exception(ValueError("no"))
        done, pending = await batches.wait([late, failed], return_when=asyncio.FIRST_COMPLETED)
        assert (done, pending) == ({failed}, {late})
        failed.exception()

    asyncio.run(run())


def test_one_that_never_comes_holds_up_nothing_that_came_later(batches):
    async def run():
        never = asyncio.get_running_loop().create_future()
        return await batches.wait([never], return_when=asyncio.FIRST_COMPLETED)

    done, pending = asyncio.run(run())
    assert (len(done), len(pending)) == (0, 1)


def test_everything_else_is_asyncio(batches):
    assert batches.sleep is asyncio.sleep
    assert batches.Task is asyncio.Task


def test_lines_for_debugging_go_nowhere(monkeypatch):
    monkeypatch.setattr(pulumi.log, "debug", pulumi.log.debug)
    monkeypatch.setattr(pulumi.log, "get_engine", lambda: pytest.fail("the engine was asked"))
    sdk_waits.leave_out_debugging()
    pulumi.log.debug("anything", stream_id=1)


@pytest.mark.parametrize(
    ("command_line", "asks"),
    [
        (["pulumi", "preview", "-s", "dev", "--json", ""], False),
        (["pulumi", "preview", "--diff", "--yes"], False),
        (["pulumi", "preview", "--debug"], True),
        (["pulumi", "preview", "--debug=true"], True),
        (["pulumi", "up", "-yd"], True),
    ],
)
def test_a_command_that_asks_for_debugging_is_known(command_line, asks):
    assert sdk_waits.asks_for_debugging(command_line) is asks
