"""When chips are told to forget live adapters that are gone."""

import asyncio
import dataclasses
import threading

import pytest

from workloads.diffusion import service
from workloads.diffusion.adapters import Adapter, Weighted
from workloads.diffusion.config import from_dict
from workloads.diffusion.metrics import Metrics
from workloads.diffusion.protocol import parse
from workloads.diffusion.service import Service
from workloads.diffusion.workers import State

SETTINGS = from_dict({"model": "flux", "folder": "/weights", "live_adapters": "/live"})
PLAIN = parse({"prompt": "x"}, SETTINGS)
REQUEST = dataclasses.replace(PLAIN, adapters=(Weighted(Adapter("alice", "/live/alice", "1")),))


class Chip:
    """A worker that a test holds, and what it was told."""

    state, stage, number = State.READY, "ready", 0

    def __init__(self):
        self.changed = lambda: None
        self.is_idle = False
        self.pictures = []
        self.told = []

    def start(self):
        pass

    def draw(self, pictures):
        self.told.append("draw")
        for picture in pictures:
            picture.done.set_result("file")

    def forget(self, adapter):
        self.told.append(f"forget {adapter}")


@pytest.fixture
def chip(monkeypatch):
    made = Chip()

    def make(_settings, _number, changed, _timed):
        made.changed = changed
        return made

    monkeypatch.setattr(service, "Worker", make)
    monkeypatch.setattr(service, "_LOOK_SECONDS", 0.01)
    return made


async def until(holds):
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.01)


def test_an_image_that_waited_while_its_adapter_went_leaves_no_copy(chip, monkeypatch):
    monkeypatch.setattr(service.adapters, "find", lambda *_: None)

    async def run():
        made = Service(SETTINGS, Metrics(SETTINGS.bases))
        waiting = asyncio.create_task(made.draw(REQUEST, ""))
        await asyncio.sleep(0)
        made.start()
        await until(lambda: "forget alice" in chip.told)
        chip.is_idle = True
        chip.changed()
        await waiting
        await until(lambda: chip.told[-1] == "forget alice")

    asyncio.run(run())
    assert "draw" in chip.told


def test_an_adapter_that_comes_back_while_the_server_looks_is_watched_again(chip, monkeypatch):
    looks, go = [], threading.Event()

    def find(*_):
        looks.append(len(looks))
        if len(looks) == 1:
            go.wait(30)
            return None
        return Adapter("alice", "/live/alice", "2")

    monkeypatch.setattr(service.adapters, "find", find)

    async def run():
        chip.is_idle = True
        made = Service(SETTINGS, Metrics(SETTINGS.bases))
        made.start()
        await made.draw(REQUEST, "")
        await until(lambda: looks)
        await made.draw(REQUEST, "")
        go.set()
        await until(lambda: len(looks) > 2)

    asyncio.run(run())
    assert chip.told.count("forget alice") == 1
