"""The time from the request for a replica to its first answer, by stage.

The stages and their sources are data/coldstart.yaml. `checked` compares sums with published times.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from planner.fit.tables import table

IMAGES = ("plain", "streamed", "boot-disk")
WEIGHTS = ("bucket", "bucket-cached", "streamer", "disk")
NODE_STAGES = ("queue", "node")
"""Stages that a replica on an existing node does not have."""
POD_STAGES = ("image", "pod")
"""Stages between a pod's node and the start of its containers."""
ENGINE_STAGES = ("initialise", "weights", "compile", "warm-up")
"""Stages between the start of the engine's container and its first answer."""
SCALING_SECONDS = 45.0
"""Delay of the autoscaler: one scrape interval of 30 s and one evaluation interval of 15 s."""
DOUBLING_SECONDS = 600.0
"""Default growth for sizing spare replicas: traffic that doubles in ten minutes."""


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
        """Time from the request for a replica to its first answer."""
        return sum(stage.seconds for stage in self.stages)

    @property
    def low(self) -> float:
        """Sum of the shortest known times of the stages."""
        return sum(stage.low for stage in self.stages)

    @property
    def high(self) -> float:
        """Sum of the longest known times of the stages."""
        return sum(stage.high for stage in self.stages)

    @property
    def lead_seconds(self) -> float:
        """Time by which the autoscaler must act ahead of need."""
        return SCALING_SECONDS + self.seconds

    def seconds_of(self, names: Collection[str]) -> float:
        """Return the sum of some stages, such as `POD_STAGES`."""
        return sum(stage.seconds for stage in self.stages if stage.name in names)


def cold_start(
    kind: str,
    weights_gb: float,
    *,
    provisioning: str | None = "on-demand",
    image: str = "streamed",
    weights: str = "bucket",
    is_compiled: bool = True,
    disk_gb_per_second: float | None = None,
    bucket_gb: float = 0.0,
) -> ColdStart:
    """Return the cold start of one replica.

    Args:
        kind: `tpu`, `gpu` or `cpu`.
        weights_gb: Weights in 10^9 bytes, over all hosts, which read in turn or share one source.
        provisioning: Provisioning of the node; None if the node exists.
        image: One of `IMAGES`.
        weights: One of `WEIGHTS`.
        is_compiled: Whether the compile cache has the programs.
        disk_gb_per_second: Throughput of a Hyperdisk ML for one reader, if known.
        bucket_gb: Weights in 10^9 bytes that come from a bucket besides, after the others.

    Raises:
        ValueError: A value is not in its list, or the throughput is not positive.
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
        _both(
            _read(weights_gb, data["weights"][weights], disk_gb_per_second),
            _read(bucket_gb, data["weights"]["bucket"], None),
        ),
        _stage("compile", data["compile"][f"cached-{kind}" if is_compiled else kind]),
        _stage("warm-up", data["warm-up"]["any"]),
    ]
    return ColdStart(tuple(found))


def probed_seconds(kind: str, weights_gb: float) -> float:
    """Return the startup probe's wait for a first start with streamed weights, in seconds.

    It assumes the fastest published method for reading from a bucket: a shorter window is too short
    for every method.

    Args:
        kind: `tpu` or `gpu`.
        weights_gb: in 10^9 bytes.
    """
    start = cold_start(kind, weights_gb, provisioning=None, weights="streamer", is_compiled=False)
    return start.seconds_of(ENGINE_STAGES)


def _node(kind: str, provisioning: str | None) -> list[Stage]:
    """Return the stages until the node exists; none if it already does."""
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


def _both(one: Stage, other: Stage) -> Stage:
    """Return two reads, one after the other; the second may be none."""
    if not other.seconds:
        return one
    return replace(
        one,
        seconds=one.seconds + other.seconds,
        low=one.low + other.low,
        high=one.high + other.high,
        how=f"{one.how}; {other.how}",
    )


def spare_replicas(
    replicas: int, start: ColdStart, doubling_seconds: float = DOUBLING_SECONDS
) -> int:
    """Return the spare replicas that serve growing traffic while another replica starts.

    Args:
        replicas: Replicas for the current traffic.
        start: Cold start of another replica.
        doubling_seconds: Shortest doubling time of traffic.
    """
    return math.ceil(replicas * (2 ** (start.lead_seconds / doubling_seconds) - 1) - 1e-9)


def asks_at(start: ColdStart, doubling_seconds: float = DOUBLING_SECONDS) -> float:
    """Return the share of full load at which the autoscaler must request another replica.

    At this load, the new replica answers before traffic that doubles in `doubling_seconds` fills
    the existing replicas.

    Args:
        start: Cold start of another replica.
        doubling_seconds: Shortest doubling time of traffic.
    """
    return 2 ** -(start.lead_seconds / doubling_seconds)


@dataclass(frozen=True)
class Checked:
    """A published time and its estimate."""

    what: str
    source: str
    published: float
    calculated: ColdStart

    @property
    def error(self) -> float:
        """Calculated over published, less one."""
        return self.calculated.seconds / self.published - 1


def checked() -> list[Checked]:
    """Return every published time with the sum of its stages."""
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
