"""Comparison of tokens in the gates' records with the engines' counters."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from gke_inference.catalogue.engines import engine
from infra.plan import Plan, RegionPlan
from scripts.accept.deployed import Cluster
from scripts.terminal.tables import Listing, figure, print_table
from twin.cluster.monitoring.promql import Sample

LAG: Final = timedelta(seconds=30)
"""Minimum age of compared counts: engines are scraped every 15 seconds."""
TOLERANCE: Final = 0.001
"""Part of the engines' tokens by which the records may differ: requests that are under way when the
time begins or ends are in one and not in the other."""
SLACK: Final = 100
"""Tokens by which they may always differ: engines count the request that warms them up, and what a
replica counts after its last scrape is lost with it."""
ESTIMATE_TOLERANCE: Final = 0.2
"""Part of the estimated tokens by which the records may differ: those of requests whose clients
left before the engine reported any usage. Engines count what they generated until then. Streams are
not among them where engines report their usage with each event."""
_KINDS: Final = ("prompt", "completion")


@dataclass(frozen=True)
class Window:
    """Period of the comparison."""

    begin: datetime
    end: datetime

    def has(self, record: Mapping[str, Any]) -> bool:
        """Return whether a record is in this period."""
        at = datetime.fromisoformat(str(record["time"]))
        return self.begin <= at <= self.end


@dataclass(frozen=True)
class Compared:
    """Tokens of one model and kind, from both sides."""

    model: str
    kind: str
    """`prompt` or `completion`."""
    recorded: int
    counted: int
    estimated: int = 0
    """Part of the recorded tokens that the gate estimated."""

    @property
    def difference(self) -> float:
        """Tokens missing in the records, as a share of the engines' count."""
        return (self.counted - self.recorded) / max(self.counted, self.recorded, 1)

    @property
    def verdict(self) -> str:
        """How both agree: `yes`, `within 100 tokens`, `within the estimates` or `no`."""
        apart = abs(self.counted - self.recorded)
        if apart <= TOLERANCE * max(self.counted, self.recorded):
            return "yes"
        if apart <= SLACK:
            return f"within {SLACK} tokens"
        rest = apart - max(SLACK, TOLERANCE * max(self.counted, self.recorded))
        # an engine counts a prompt with the first token; a client may have left before
        is_unread = self.kind == "prompt" and self.recorded > self.counted
        allowed = self.estimated * (1 if is_unread else ESTIMATE_TOLERANCE)
        return "within the estimates" if rest <= allowed else "no"

    @property
    def agrees(self) -> bool:
        """Whether both agree within the tolerance."""
        return self.verdict != "no"


def base_models(plan: Plan) -> dict[str, str]:
    """Return the model behind every client name; engines count adapters with their model."""
    return {
        name: served
        for served, model in plan.platform.models.items()
        for name in (served, *model.other_names(served))
    }


def recorded(
    records: Iterable[Mapping[str, Any]], bases: Mapping[str, str], window: Window
) -> dict[tuple[str, str], int]:
    """Return the tokens of records by model and kind."""
    found: dict[tuple[str, str], int] = {}
    for record in records:
        model = bases.get(str(record.get("model")))
        if model is None or not window.has(record):
            continue
        for kind in _KINDS:
            key = (model, kind)
            found[key] = found.get(key, 0) + int(record.get(f"{kind}_tokens", 0))
    return found


def estimated(
    records: Iterable[Mapping[str, Any]], bases: Mapping[str, str], window: Window
) -> dict[tuple[str, str], int]:
    """Return the tokens of those records that the gate estimated, by model and kind."""
    return recorded((one for one in records if one.get("estimated", False)), bases, window)


def counted(
    clusters: Iterable[Cluster], window: Window, now: datetime
) -> dict[tuple[str, str], int]:
    """Return the tokens that engines counted by model and kind.

    The growth of a counter is its last value minus its first value, per series. If the engine
    restarted in between, the counter began again from 0, and Prometheus' `increase` adds the parts;
    it extrapolates to the ends of the period, so only such counters are read with it.

    Raises:
        QueryError, CloudError: Prometheus does not answer.
    """
    found: dict[tuple[str, str], int] = {}
    long = round((window.end - window.begin).total_seconds())
    late = round((now - window.end).total_seconds())
    for cluster in clusters:
        for model, kind, selector in _selectors(cluster.plan):
            ends = cluster.query(f"last_over_time({selector}[{long}s] offset {late}s)")
            begins = cluster.query(f"last_over_time({selector}[5m] offset {late + long}s)")
            period = f"({selector}[{long}s] offset {late}s)"
            restarted = cluster.query(f"increase{period} and resets{period} > 0")
            growth = _growth(begins, ends, restarted)
            found[model, kind] = found.get((model, kind), 0) + growth
    return found


def _selectors(region: RegionPlan) -> list[tuple[str, str, str]]:
    """Return model, kind and series of a region's counters; a canary counts for its model."""
    made: list[tuple[str, str, str]] = []
    for served in region.served:
        if served.settings.task.value != "generate":
            continue
        metrics = engine(served.settings.engine).metrics
        names = {"prompt": metrics.prompt_tokens, "completion": metrics.answer_tokens}
        inside = f'namespace="{served.namespace}",cluster="{region.cluster_name}"'
        model = served.name if served.version is None else served.version.of
        # with disaggregated serving both count the prompt, and decode replicas count all of it
        role = "" if served.prefill is None else ',role="decode"'
        for kind, name in names.items():
            if name is not None:
                series = f'{name}{{{inside},job="{served.object_name}"{role}}}'
                made.append((model, kind, series))
    return made


def _growth(begins: Sequence[Sample], ends: Sequence[Sample], restarted: Sequence[Sample]) -> int:
    before, again = _by_series(begins), _by_series(restarted)
    total = 0.0
    for series, value in _by_series(ends).items():
        start = before.get(series, 0.0)
        # a counter that is smaller and was not reset in the period was reset just before it
        total += again.get(series, value - start if value >= start else value)
    return round(total)


def _by_series(samples: Sequence[Sample]) -> dict[tuple[tuple[str, str], ...], float]:
    """Return values by labels, without the metric's name, which functions drop."""
    return {
        tuple(sorted((k, v) for k, v in one.labels.items() if k != "__name__")): one.value
        for one in samples
    }


def compare(
    records: Mapping[tuple[str, str], int],
    counters: Mapping[tuple[str, str], int],
    estimates: Mapping[tuple[str, str], int],
) -> list[Compared]:
    """Return the counts of both sides by model and kind, without empty entries."""
    keys = sorted({*records, *counters}, key=lambda key: (key[0], _KINDS.index(key[1])))
    rows = [
        Compared(*key, records.get(key, 0), counters.get(key, 0), estimates.get(key, 0))
        for key in keys
    ]
    return [row for row in rows if row.recorded or row.counted]


def print_comparison(rows: Sequence[Compared]) -> None:
    """Print the comparison as a table."""
    table = Listing(
        "MODEL", "TOKENS", figure("RECORDED"), figure("ESTIMATED"), figure("ENGINES"),
        figure("MISSING"), "AGREES",
    )  # fmt: skip
    for row in rows:
        table.add_row(
            row.model,
            row.kind,
            f"{row.recorded:,}",
            f"{row.estimated:,}",
            f"{row.counted:,}",
            f"{row.difference:.2%}",
            row.verdict,
        )
    print_table(table)
