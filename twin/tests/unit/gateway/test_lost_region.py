"""Gateways of a lost region."""

from types import SimpleNamespace
from typing import Any

import pytest

from twin.cluster.gateway.controller import GatewayController
from twin.host.paths import TwinPaths
from twin.world.capacity import World


class Envoy:
    """A process that runs until it is stopped."""

    def __init__(self) -> None:
        self.runs = True

    def pid(self) -> int | None:
        return 1 if self.runs else None

    def stop(self) -> None:
        self.runs = False


@pytest.fixture
def controller(tmp_path) -> GatewayController:
    told: list[tuple[str, str, str]] = []
    context: Any = SimpleNamespace(
        dir=tmp_path,
        events=SimpleNamespace(emit=lambda *words, **_: told.append(words)),
        paths=TwinPaths(tmp_path / "twin"),
        spec=SimpleNamespace(region="europe-west4"),
        told=told,
    )
    made: Any = GatewayController(context)
    made._planes[("models", "gateway")] = SimpleNamespace(process=Envoy())
    made._announced[("models", "gateway")] = "https://127.32.0.1:443"
    return made


def rounds(controller: Any) -> tuple[bool, list[str]]:
    """Return whether the gateway runs after a round, and what was told."""
    controller._round(None)
    (plane,) = controller._planes.values()
    return plane.process.runs, [words[0] for words in controller._ctx.told]


def test_a_gateway_ends_with_its_region_and_is_told_once(controller: Any) -> None:
    World(outages=("europe-west4-*",)).save(controller._ctx.paths.capacity_file)
    assert rounds(controller) == (False, ["gateway.lost"])
    assert rounds(controller) == (False, ["gateway.lost"])
    assert controller._announced == {}  # so that its return is announced
    World().save(controller._ctx.paths.capacity_file)
    assert controller._is_lost() is False


def test_a_gateway_outlives_a_zone(controller: Any) -> None:
    World(outages=("europe-west4-a",)).save(controller._ctx.paths.capacity_file)
    assert controller._is_lost() is False


def test_half_an_edit_of_the_world_loses_no_region(controller: Any) -> None:
    file = controller._ctx.paths.capacity_file
    file.parent.mkdir(parents=True)
    file.write_text("outages: [")
    assert controller._is_lost() is False
