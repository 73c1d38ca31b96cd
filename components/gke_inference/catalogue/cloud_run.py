"""Cloud Run with GPUs: accelerators, sizes of an instance, regions, limits, quotas and prices.

Facts are in data/cloud_run.yaml, with sources and a date; prices in data/platform_prices.csv.
"""

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from gke_inference.catalogue.data_file import read_table

from .platform_prices import UnitPrice, unit_price
from .quotas import Metric

_FILE: Final = Path(__file__).parent / "data" / "cloud_run.yaml"


@dataclass(frozen=True)
class RunGpu:
    """A GPU that an instance of a Cloud Run service can have. An instance has exactly one."""

    name: str
    vcpus: tuple[int, ...]
    """vCPUs that an instance may have, the default first."""
    least_gib: int
    """Least memory of an instance."""
    usual_gib: int
    """Default memory of an instance, which is also the most."""
    regions: tuple[str, ...]
    invited: frozenset[str]
    """Regions that Google opens by invitation only."""


@dataclass(frozen=True)
class RunLimits:
    """Limits of a service."""

    concurrency: int
    """Most requests of one instance at a time."""
    timeout_seconds: int
    """Most time of a request."""
    url_label: int
    """Most characters of `SERVICE-PROJECTNUMBER`."""
    probe_seconds: int
    """Most initial delay of a startup probe, and most product of its period and threshold."""


@dataclass(frozen=True)
class RunTimes:
    """Documented times of instances."""

    instance_seconds: int
    """From the need for an instance to the start of its container."""
    idle_minutes: int
    """Most time that an idle instance is kept and charged."""
    queue_seconds: int
    """Time that a request waits if all instances are busy."""


@cache
def gpu_names() -> tuple[str, ...]:
    """Return the GPUs of Cloud Run, as a stack names them."""
    return tuple(_document()["gpus"])


@cache
def run_gpu(name: str) -> RunGpu:
    """Return a GPU of Cloud Run.

    Raises:
        KeyError: Cloud Run does not have it.
    """
    entry = _document()["gpus"][name]
    sizes = entry["memory_gib"]
    return RunGpu(
        invited=frozenset(entry["invited"]),
        least_gib=min(sizes),
        name=name,
        regions=tuple(entry["regions"]),
        usual_gib=max(sizes),
        vcpus=tuple(entry["vcpus"]),
    )


@cache
def run_limits() -> RunLimits:
    """Return the limits of a service."""
    return RunLimits(**_document()["limits"])


@cache
def run_times() -> RunTimes:
    """Return the documented times of instances."""
    times = {key: value for key, value in _document()["times"].items() if key != "confidence"}
    return RunTimes(**times)


def gpu_quota(name: str, *, is_zonal: bool) -> tuple[Metric, int]:
    """Return the quota of a GPU, and what one GPU counts against it.

    Args:
        name: The GPU.
        is_zonal: Whether the service has zonal redundancy, which has a quota of its own.
    """
    entry, kind = _document()["gpus"][name], "zonal" if is_zonal else "single"
    redundancy = "with" if is_zonal else "without"
    is_milli = entry["quota"]["milli"]
    return Metric(
        entry["quota"][kind],
        given_id=entry["quota_ids"][kind],
        service=_document()["service"],
        title=f"{name} on Cloud Run {redundancy} zonal redundancy",
        unit="milliGPUs" if is_milli else "GPUs",
    ), 1000 if is_milli else 1


def instance_price(
    name: str, region: str, vcpus: int, memory_gib: int, *, is_zonal: bool
) -> UnitPrice | None:
    """Return the price of an instance for each hour that it exists; None if a part has none.

    Instance-based billing, which GPUs require, charges GPU, vCPUs and memory from the start of an
    instance to its end, idle or not, and no fee for requests. The price leaves the monthly free
    amount of vCPUs and memory out.
    """
    gpu = unit_price(f"cloud-run-{name}{'-zonal' if is_zonal else ''}", region)
    cpu, memory = unit_price("cloud-run-vcpu", region), unit_price("cloud-run-gib", region)
    if gpu is None or cpu is None or memory is None:
        return None
    return replace(gpu, usd=gpu.usd + vcpus * cpu.usd + memory_gib * memory.usd)


def plain_instance_price(region: str, vcpus: int, memory_gib: int) -> UnitPrice | None:
    """Return the price of an instance without a GPU, as `instance_price` does for one with."""
    cpu, memory = unit_price("cloud-run-vcpu", region), unit_price("cloud-run-gib", region)
    if cpu is None or memory is None:
        return None
    return replace(cpu, usd=vcpus * cpu.usd + memory_gib * memory.usd)


def service_url(service: str, project_number: int | str, region: str) -> str:
    """Return the URL of a service that is known before it exists.

    docs.cloud.google.com/run/docs/triggering/https-request, deterministic URL.
    """
    return f"https://{service}-{project_number}.{region}.run.app"


@cache
def _document() -> dict[str, Any]:
    return read_table(_FILE)
