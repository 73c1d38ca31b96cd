"""A traffic file from the usage records of a platform, which have no prompts.

Each gate writes one record per request of a team (workloads/gateway/callout/internal/usage): time
of its end, duration, team, model, region and tokens. The file has no key and no subject.
"""

import csv
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any, Final

from simulator.demand.columns import Requests
from simulator.demand.ordering import sorted_within

_FIRST_ERROR: Final = 400


def rows_of(records: Iterable[Mapping[str, Any]]) -> Iterator[tuple[float, Mapping[str, Any]]]:
    """Yield the arrival and the record of each answered request, with time in seconds.

    Refused requests and answers from the response cache used no engine and are left out.
    """
    for record in records:
        answered = int(record.get("status", 0)) < _FIRST_ERROR
        used = int(record.get("prompt_tokens", 0)) > 0 and record.get("cache") != "hit"
        used = used and int(record.get("completion_tokens", 0)) > 0
        if answered and used and record.get("model"):
            end = datetime.fromisoformat(str(record["time"])).timestamp()
            yield end - float(record.get("duration_ms", 0)) / 1000, record


def write(records: Iterable[Mapping[str, Any]], file: Path) -> int:
    """Write a traffic file and return the number of its requests; none are no file.

    Cached prompt tokens become a prefix that the requests of a team to a model share.
    """
    arrived = sorted_within(rows_of(records))  # logs may come gate by gate
    first = next(arrived, None)
    if first is None:
        return 0
    groups: dict[tuple[str, str], int] = {}
    count = 0
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow(Requests.HEADERS[0])
        for at, record in chain([first], arrived):
            writer.writerow([f"{max(at - first[0], 0.0):.3f}", *_cells(record, groups)])
            count += 1
    return count


def _cells(record: Mapping[str, Any], groups: dict[tuple[str, str], int]) -> list[object]:
    team, model = str(record.get("team", "")), str(record["model"])
    group = groups.setdefault((team, model), len(groups))
    prompt = int(record["prompt_tokens"])
    cached = min(int(record.get("cached_tokens", 0)), prompt)
    shared = [group, cached] if cached else ["", ""]
    region, output = str(record.get("region", "")), int(record["completion_tokens"])
    return [model, team, region, prompt, output, *shared]
