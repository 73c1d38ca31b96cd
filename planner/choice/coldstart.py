"""How long a replica takes from being wanted to its first answer, stage by stage.

The stages and their sources are data/coldstart.yaml. `checked` compares sums with published times.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from planner.fit.tables import table

IMAGES = ("plain", "streamed", "boot-disk")
WEIGHTS = ("bucket", "bucket-cached", "streamer", "disk")
SCALING_SECONDS = 45.0
"""Until the autoscaler asks: one scrape of 30 s and one of its rounds of 15 s."""
DOUBLING_SECONDS = 600.0
"""The growth that spare replicas are sized for by default: traffic that doubles in ten minutes."""


@dataclass(frozen=True)
class Stage:
    """One stage, in seconds."""

    name: str
    seconds: float
    low: float
    high: float
    how: str
    """The arithmetic, or where the figure is from."""
    confidence: str


@dataclass(frozen=True)
class ColdStart:
    """All stages, in order."""

    stages: tuple[Stage, ...]

    @property
    def seconds(self) -> float:
        """From wanting a replica to its first answer."""
        return sum(stage.seconds for stage in self.stages)

    @property
    def low(self) -> float:
        """The sum where every stage is as short as is known."""
        return sum(stage.low for stage in self.stages)

    @property
    def high(self) -> float:
        """The sum where every stage is as long as is known."""
        return sum(stage.high for stage in self.stages)

    @property
    def lead_seconds(self) -> float:
        """How far ahead of need the autoscaler has to ask."""
        return SCALING_SECONDS + self.seconds


def cold_start(
    kind: str,
    weights_gb: float,
    *,
    provisioning: str | None = "on-demand",
    image: str = "streamed",
    weights: str = "bucket",
    is_compiled: bool = True,
    disk_gb_per_second: float | None = None,
) -> ColdStart:
    """Return the cold start of one replica.

    Args:
        kind: `tpu` or `gpu`.
        weights_gb: in 10^9 bytes, over all hosts, which read in turn or share one source.
        provisioning: how the node is bought; None: there is a node already.
        image: one of `IMAGES`.
        weights: one of `WEIGHTS`.
        is_compiled: whether the compile cache has the programs.
        disk_gb_per_second: what a Hyperdisk ML gives one reader, where it is known.

    Raises:
        ValueError: a word is not one of its list, or a disk gives nothing.
    """
    if image not in IMAGES or weights not in WEIGHTS:
        raise ValueError(
            f"image must be one of {', '.join(IMAGES)} and weights one of {', '.join(WEIGHTS)}, "
            f"got {image!r} and {weights!r}"
        )
    if disk_gb_per_second is not None and disk_gb_per_second <= 0:
        raise ValueError(f"disk_gb_per_second must be above 0, got {disk_gb_per_second:g}")
    data = table("coldstart")
    found = [
        *_node(kind, provisioning),
        _stage("image", data["image"][image]),
        _stage("pod", data["pod"]["any"]),
        _stage("initialise", data["initialise"]["any"]),
        _read(weights_gb, data["weights"][weights], disk_gb_per_second),
        _stage("compile", data["compile"][f"cached-{kind}" if is_compiled else kind]),
        _stage("warm-up", data["warm-up"]["any"]),
    ]
    return ColdStart(tuple(found))


_PROBED = ("initialise", "weights", "compile", "warm-up")
"""Stages between the start of the engine's container and its first answer."""


def probed_seconds(kind: str, weights_gb: float) -> float:
    """Return what a startup probe waits for at a first start, with weights that are streamed.

    The fastest of the ways to read them that are published for a bucket: a shorter window is too
    short for every one of them.

    Args:
        kind: `tpu` or `gpu`.
        weights_gb: in 10^9 bytes.
    """
    start = cold_start(kind, weights_gb, provisioning=None, weights="streamer", is_compiled=False)
    return sum(stage.seconds for stage in start.stages if stage.name in _PROBED)


def _node(kind: str, provisioning: str | None) -> list[Stage]:
    """Return the stages until there is a node; none where there is one already."""
    data = table("coldstart")
    if provisioning is None:
        return []
    queue = data["queue"].get(provisioning)
    waits = [] if queue is None else [_stage("queue", queue)]
    return [*waits, _stage("node", data["node"][kind])]


def _stage(name: str, row: Mapping[str, Any]) -> Stage:
    return Stage(
        name,
        float(row["seconds"]),
        float(row["low"]),
        float(row["high"]),
        str(row["source"]),
        str(row["confidence"]),
    )


def _read(size: float, row: Mapping[str, Any], given: float | None) -> Stage:
    is_known = given is not None
    rate = given if is_known else float(row["gb_per_second"])
    low, high = (given, given) if is_known else (float(row["low"]), float(row["high"]))
    how = f"{size:.1f} GB at {rate:g} GB/s: {row['source']}"
    return Stage("weights", size / rate, size / high, size / low, how, str(row["confidence"]))


def spare_replicas(
    replicas: int, start: ColdStart, doubling_seconds: float = DOUBLING_SECONDS
) -> int:
    """Return the replicas to keep beyond need, so that growing traffic is met while one starts.

    Args:
        replicas: that the traffic of now needs.
        start: of one more.
        doubling_seconds: in which traffic doubles at worst.
    """
    return math.ceil(replicas * (2 ** (start.lead_seconds / doubling_seconds) - 1) - 1e-9)


def asks_at(start: ColdStart, doubling_seconds: float = DOUBLING_SECONDS) -> float:
    """Return the share of full load at which the autoscaler has to ask for one more replica.

    Below it, traffic that doubles in `doubling_seconds` fills the replicas no sooner than the new
    one answers.

    Args:
        start: of one more.
        doubling_seconds: in which traffic doubles at worst.
    """
    return 2 ** -(start.lead_seconds / doubling_seconds)


@dataclass(frozen=True)
class Checked:
    """A published time and the sum for it."""

    what: str
    source: str
    published: float
    calculated: ColdStart

    @property
    def error(self) -> float:
        """Calculated over published, less one."""
        return self.calculated.seconds / self.published - 1


def checked() -> list[Checked]:
    """Return every published time beside what the stages add up to."""
    return [
        Checked(
            row["what"],
            row["source"],
            float(row["seconds"]),
            cold_start(
                row["kind"],
                float(row["gb"]),
                provisioning="on-demand" if row["node"] else None,
                image=row["image"],
                weights=row["weights"],
                is_compiled=False,
            ),
        )
        for row in table("coldstart")["published"]
    ]
