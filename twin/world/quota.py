"""Quotas of the world: their lines in `capacity.yaml`, and the quotas of a machine.

Names are Google's, from the catalog of the components. Rules: quota.*.
"""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gke_inference.catalogue.accelerators import accelerator
from gke_inference.catalogue.quotas import (
    Metric,
    Selection,
    accelerator_metric,
    cpu_families,
    cpu_metric,
    metric,
    metric_names,
    selection,
)
from twin.world.machines import machines_of_family
from twin.world.regions import is_region, suggestion

QuotaKind = Literal["on-demand", "preemptible"]
_PREEMPTIBLE_CPUS = "PREEMPTIBLE_CPUS"


class QuotaLine(BaseModel):
    """A limit for an accelerator or machine family in a region, or for any quota by name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    region: str | None = None
    """None for a project-wide quota."""
    accelerator: str | None = None
    """Catalog name, or family of general-purpose machines."""
    kind: QuotaKind = "on-demand"
    """Kind of quota; Spot and flex-start use `preemptible`."""
    chips: int | None = Field(default=None, ge=0)
    """Number of chips, or vCPUs of a machine family."""
    metric: str | None = None
    """Google's name of a quota, such as `SSD_TOTAL_GB`, instead of `accelerator`."""
    value: str | None = None
    """Value of its dimension, such as `C4` of `CPUS_PER_VM_FAMILY`."""
    limit: int | None = Field(default=None, ge=0)
    """Limit in the quota's unit, with `metric`."""

    @model_validator(mode="after")
    def _is_of_one_kind(self) -> "QuotaLine":
        of_chips = None not in (self.accelerator, self.chips, self.region)
        of_metric = None not in (self.metric, self.limit)
        has_other = self.metric is not None if of_chips else self.accelerator is not None
        if of_chips == of_metric or has_other:
            raise ValueError("set 'region', 'accelerator' and 'chips', or 'metric' and 'limit'")
        return self

    @model_validator(mode="after")
    def _is_of_something_known(self) -> "QuotaLine":
        """Reject a name against which nothing counts; such a limit would never apply."""
        name = self.accelerator
        if name is not None and not is_accelerator(name) and not _is_general_family(name):
            raise ValueError(
                f"accelerator: must be an accelerator or a family of general machines, got {name!r}"
            )
        known = metric_names() | {_PREEMPTIBLE_CPUS}
        if self.metric is not None and self.metric not in known:
            alike = get_close_matches(self.metric, sorted(known), 1)
            meant = f"; did you mean {alike[0]!r}?" if alike else ""
            raise ValueError(f"metric: must be a known quota's name, got {self.metric!r}{meant}")
        return self

    @model_validator(mode="after")
    def _is_one_limit(self) -> "QuotaLine":
        """Reject a missing or superfluous region or value; such a line would never apply."""
        if self.region is not None and not is_region(self.region):
            raise ValueError(
                f"region: must be a region of Google Cloud, got {self.region!r}"
                f"{suggestion(self.region)}"
            )
        if self.metric is None:
            if self.value is not None:
                raise ValueError(
                    f"value: must be omitted with 'accelerator', which implies it, got "
                    f"{self.value!r}"
                )
            return self
        asked = selection(self.metric)
        if asked.is_regional != (self.region is not None):
            rule = (
                f"must be set, as {self.metric} is a quota of each region"
                if asked.is_regional
                else f"must not be set: {self.metric} is a quota of the whole project"
            )
            raise ValueError(f"region: {rule}, got {self.region!r}")
        _check_value(self.metric, asked, self.value)
        return self

    @property
    def most(self) -> int:
        """The limit, in the quota's unit."""
        return (self.chips if self.limit is None else self.limit) or 0

    @property
    def label(self) -> str:
        """The quota's name with the value of its dimension, like `Metric.label`."""
        if self.accelerator is None:
            return " ".join(filter(None, (self.metric, self.value)))
        return quota_metric(self.accelerator, self.kind).label

    def drawn(self, name: str, region: str, kind: QuotaKind, amount: int) -> int:
        """Return a machine's share of the limit; the arguments are those of `draws`."""
        label = self.label
        return sum(
            taken
            for counted, where, taken in draws(name, region, kind, amount)
            if counted.label == label and where == self.region
        )


def _check_value(name: str, asked: Selection, value: str | None) -> None:
    """Reject a dimension value that a quota does not have.

    Raises:
        ValueError: the quota has no dimension, needs a value, or does not have this value.
    """
    if asked.dimension is None:
        if value is not None:
            raise ValueError(f"value: must not be set: {name} has no dimension, got {value!r}")
        return
    if asked.values:
        if value not in asked.values:
            raise ValueError(
                f"value: must be the {asked.dimension} of {name}, one of "
                f"{', '.join(asked.values)}, got {value!r}"
            )
    elif value is None or not _is_family_of(name, value):
        raise ValueError(
            f"value: must be the {asked.dimension} of {name}, a family of general machines such as "
            f"C4, got {value!r}"
        )


def _is_family_of(name: str, value: str) -> bool:
    """Return whether vCPUs of a family, in Google's spelling, count against a quota by family."""
    family = value.lower()
    found = cpu_metric(family) if _is_general_family(family) else None
    return found is not None and found == metric(name, value)


def draws(
    name: str, region: str, kind: QuotaKind, amount: int
) -> Iterator[tuple[Metric, str | None, int]]:
    """Yield the quotas of a machine: metric, region, amount (rule quota.metrics).

    The region None means the whole project.

    Args:
        name: accelerator, or family of a general-purpose machine.
        region: region of the machine.
        kind: kind of quota for its provisioning model.
        amount: number of chips, or vCPUs of a general-purpose machine.
    """
    yield quota_metric(name, kind), region, amount
    yield metric("INSTANCES"), region, 1
    if not is_accelerator(name):
        yield metric("CPUS_ALL_REGIONS"), None, amount
    elif accelerator(name).kind == "gpu":
        yield metric("GPUS_ALL_REGIONS"), None, amount


def quota_metric(name: str, kind: QuotaKind) -> Metric:
    """Return the quota of an accelerator's chips, or of a family's vCPUs.

    Raises:
        ValueError: the name is a family of machines with accelerators.
    """
    is_spot = kind == "preemptible"
    if is_accelerator(name):
        found = accelerator_metric(name, "spot" if is_spot else "on-demand")
    else:
        found = Metric(_PREEMPTIBLE_CPUS, unit="vCPUs") if is_spot else cpu_metric(name)
    if found is None:
        raise ValueError(f"{name}: must be an accelerator or a family of general machines")
    return found


def _is_general_family(name: str) -> bool:
    """Return whether a name is a machine family without accelerators."""
    if name in cpu_families():
        return True
    return cpu_metric(name) is not None and bool(machines_of_family(name))


def is_accelerator(name: str) -> bool:
    """Return whether a claim's name is an accelerator instead of a machine family."""
    try:
        accelerator(name)
    except ValueError:
        return False
    return True
