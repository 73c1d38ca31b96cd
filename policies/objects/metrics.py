"""Metrics that an engine's release exports: exported_metrics.yaml of its folder, and the page."""

import json
from collections.abc import Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from gke_inference.catalogue.engine_tables import tables

_ROOT = Path(__file__).resolve().parents[2]


class Exists(Enum):
    """Whether a metric exists."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


def engine_metric(name: str, kind: str, version: tuple[int, ...] | None) -> tuple[Exists, str]:
    """Return whether an engine exports a metric, and if not or unknown, the reason.

    Args:
        name: Such as `vllm:kv_cache_usage_perc`, without histogram suffixes.
        kind: Name of the engine.
        version: Its release, or None if the image does not specify it.
    """
    entry: dict[str, Any] = _document().get(kind, {})
    if not name.startswith(tuple(entry.get("prefixes", ()))):
        return Exists.YES, ""  # of another program
    change: dict[str, str] | None = entry.get("changes", {}).get(name)
    if change is not None:
        return _changed(change, version)
    if name in _names(kind):
        return Exists.YES, ""
    recorded = _version(str(entry.get("recorded", "0")))
    if version is not None and version[:2] == recorded[:2]:
        return Exists.NO, "it is not on the recorded page of that release"
    return Exists.UNKNOWN, f"the recorded page is of release {entry.get('recorded')}"


def _changed(change: dict[str, str], version: tuple[int, ...] | None) -> tuple[Exists, str]:
    since, until = change.get("since"), change.get("until")
    instead = f"; use {change['instead']}" if "instead" in change else ""
    if version is None:
        return Exists.UNKNOWN, f"exported from {since or 'the first'} to before {until or 'now'}"
    if since is not None and version < _version(since):
        return Exists.NO, f"it came with {since}{instead}"
    if until is not None and version >= _version(until):
        return Exists.NO, f"it went with {until}{instead}"
    return Exists.YES, ""


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def prefixes() -> tuple[str, ...]:
    """Return the prefixes of the metrics of all engines, such as `vllm:` and `tgi_`."""
    return tuple(prefix for entry in _document().values() for prefix in entry["prefixes"])


def _document() -> Mapping[str, dict[str, Any]]:
    return tables("exported_metrics.yaml")


@cache
def _names(kind: str) -> frozenset[str]:
    """Return the metric names on the recorded page, with and without counter suffixes."""
    entry = _document()[kind]
    names = set(map(str, entry.get("names", ())))
    if "page" in entry:
        page: dict[str, Any] = json.loads((_ROOT / entry["page"]).read_text())["metrics"]
        for name, metric in page.items():
            names.add(name)
            if metric["type"] == "histogram":
                names |= {f"{name}_{part}" for part in ("bucket", "count", "sum")}
    return frozenset(names)
