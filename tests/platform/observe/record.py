"""Which series twins export, by stack: the record that the tests of alerts are held to.

exported.json has the names of series and of their labels, by the job that scrapes them. The tests
of running platforms call `known_series` before they end. It compares what they export with the
record, or with `--record-series` replaces the stack's part of it.
"""

import json
import time
import urllib.parse
import urllib.request
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any

from twin.cluster import lifecycle as clusters
from twin.cluster.monitoring.server import address_of
from twin.host.paths import TwinPaths

FILE = Path(__file__).with_name("exported.json")
_SECONDS = 30
_SCRAPES_SECONDS = 60
"""Four scrapes of every target."""
_OF_PROCESSES = (
    *("ALERTS", "certwatcher", "controller_runtime", "go", "http", "leader_election", "process"),
    *("promhttp", "python", "rest_client", "scrape", "workqueue"),
)
_EVERY = f'{{__name__=~".+",__name__!~"({"|".join(_OF_PROCESSES)})(_.*)?"}}'
"""Series that a part of a platform writes about its subject, and not about its own process."""

Exported = dict[str, dict[str, list[str]]]
"""Names of the labels of every series, by job and by the series' name."""


def exported(address: str) -> Exported:
    """Return what a Prometheus has ever stored, without the series of processes and scrapes."""
    query = urllib.parse.urlencode({"match[]": _EVERY})
    with urllib.request.urlopen(f"http://{address}/api/v1/series?{query}", timeout=_SECONDS) as got:
        return by_job(json.load(got)["data"])


def by_job(series: Iterable[Mapping[str, str]]) -> Exported:
    """Return the names of labels by job and name. What a rule records can have no job."""
    found: dict[str, dict[str, set[str]]] = {}
    for labels in series:
        job = found.setdefault(labels.get("job", ""), {})
        job.setdefault(labels["__name__"], set()).update(labels.keys() - {"__name__"})
    return {
        job: {name: sorted(names) for name, names in sorted(of_job.items())}
        for job, of_job in sorted(found.items())
    }


def recorded() -> dict[str, Exported]:
    """Return what was recorded, by stack."""
    return json.loads(FILE.read_text())


def labels_of(every: Iterable[Exported]) -> dict[str, set[str]]:
    """Return the names of the labels of each series, whatever scrapes it."""
    found: dict[str, set[str]] = {}
    for each in every:
        for of_job in each.values():
            for name, labels in of_job.items():
                found.setdefault(name, set()).update(labels)
    return found


def write(stack: str, part: Exported) -> None:
    """Replace the part of a stack: a series a line."""
    whole: dict[str, Any] = recorded() if FILE.exists() else {}
    whole[stack] = part
    stacks = [
        f'"{name}": {{\n' + ",\n".join(_job(*each) for each in sorted(of_stack.items())) + "\n}"
        for name, of_stack in sorted(whole.items())
    ]
    FILE.write_text("{\n" + ",\n".join(stacks) + "\n}\n")


def _job(job: str, series: Mapping[str, list[str]]) -> str:
    lines = [f"  {json.dumps(name)}: {json.dumps(labels)}" for name, labels in series.items()]
    return f" {json.dumps(job)}: {{\n" + ",\n".join(lines) + "\n }"


def known_series(
    paths: TwinPaths, stack: str, *, names: Container[str], is_recording: bool
) -> None:
    """Compare the series that a twin exports with the part of a stack, or replace that part.

    Args:
        paths: Twin on which the stack runs and has answered requests.
        stack: Its name.
        names: Series that are compared. All are recorded.
        is_recording: Whether to replace the part.

    Raises:
        AssertionError: A series is not recorded with a label that it has.
    """
    if is_recording:
        time.sleep(_SCRAPES_SECONDS)
    part: Exported = {}
    for folder in clusters.folders(paths):
        address = address_of(folder)
        for job, series in (exported(address) if address else {}).items():
            part.setdefault(job, {}).update(series)
    assert part, "no Prometheus of the twin answers"
    if is_recording:
        write(stack, part)
    now, then = labels_of([part]), labels_of([recorded().get(stack, {})])
    stale = {name: now[name] - then.get(name, set()) for name in now if name in names}
    unknown = {name: sorted(labels) for name, labels in stale.items() if labels}
    assert unknown == {}, f"run this test with --record-series: these labels are new: {unknown}"
