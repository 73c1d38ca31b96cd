"""A run of the twin beside the rehearsal of the same requests, faults and events."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from simulator.rehearsal.description import Platform
from tests.contract.infra.rehearsed_scenario import Watch, rehearsed, share_within


def kept(timeline: Mapping[str, Any], name: str) -> None:
    """Write a timeline to the folder of the variable TIMELINES, to be the next short form's."""
    folder = os.environ.get("TIMELINES")
    if folder:
        Path(folder, f"{name}.json").write_text(json.dumps(timeline) + "\n")


def compared(
    described: Platform,
    name: str,
    timeline: Mapping[str, Any],
    watch: Watch = lambda _: None,
) -> tuple[float, int]:
    """Compare a timeline of the twin with its rehearsal.

    Returns:
        Least share of the time in which a workload's replicas are within one of the twin's, and
        the refused requests of the rehearsal.
    """
    found = rehearsed(described, name, timeline, watch)
    shares = share_within(found, timeline["ready"])
    refused = sum(one.refused for one in found.outcomes.values())
    asked = timeline.get("client") or timeline["requests"]
    assert min(shares.values()) >= 0.95, shares
    assert refused == pytest.approx(asked["refused"], rel=0.1, abs=1)
    return min(shares.values()), refused
