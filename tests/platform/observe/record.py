"""Records which series twins export, for the tests of alerts.

`python -m tests.platform.observe.record STACK` reads the Prometheus of every cluster of this
checkout's twin, on which that stack runs and has answered requests, and replaces the stack's part
of exported.json: the names of its series and of their labels, by the job that scrapes them. A test
of a running platform reports when the part of the stack `local` must be recorded again.
"""

import json
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from twin.cluster import lifecycle as clusters
from twin.cluster.monitoring.server import address_of
from twin.host.paths import TwinPaths

FILE = Path(__file__).with_name("exported.json")
_SECONDS = 30
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


def main(stack: str) -> None:
    """Record what the clusters of a twin export."""
    part: Exported = {}
    for folder in clusters.folders(TwinPaths.default()):
        address = address_of(folder)
        for job, series in (exported(address) if address else {}).items():
            part.setdefault(job, {}).update(series)
    if not part:
        raise SystemExit("no Prometheus of the twin answers: bring a platform up first")
    write(stack, part)


if __name__ == "__main__":
    main(*sys.argv[1:])
