"""The table of what each engine can do on which hardware, from the data that refuses the rest."""

from gke_inference.catalogue.engines import Abilities, date, engine, engine_names, retired

_OPENING = """\
# Engines and what they can do

The words of `engine` in a stack, and what is refused when a stack is read. The data, with a source
for every row, is [engines.yaml](../../components/gke_inference/catalogue/data/engines.yaml),
compared with its sources on {date}. How a server starts and ends: [engines.md](../engines.md).
"""
_HEAD = (
    "| on | weights | KV cache | speculative | adapters | copies | hosts | apart | tasks |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


def abilities_page() -> str:
    """Return docs/reference/engines.md."""
    parts = [_OPENING.format(date=date())]
    for name in engine_names():
        facts = engine(name)
        metrics = facts.metrics
        note = "" if facts.status == "maintained" else f" ({facts.status} upstream)"
        rows = {**facts.hardware, **facts.narrower}
        parts += [
            f"## `{name}`: {facts.title}{note}\n",
            f"Health `{facts.health_path}`; queue `{metrics.queue}`, batch `{metrics.running}`, KV"
            f" cache {_code(metrics.kv_cache)}, adapters {_code(metrics.adapters)}.\n",
            "\n".join([_HEAD, *(_row(place, able) for place, able in rows.items())]),
            "\n" + "\n".join(f"- {place}: {able.source}" for place, able in rows.items()) + "\n",
        ]
    parts += ["## Refused\n", "\n".join(f"- `{name}`: {why}" for name, why in retired().items())]
    return "\n".join(parts) + "\n"


def _row(place: str, able: Abilities) -> str:
    adapters = "live, too" if able.live_adapters else _yes(able.adapters)
    cells = [
        place,
        ", ".join(able.quantization) or "-",
        ", ".join(able.kv_cache_dtype) or "-",
        ", ".join(able.speculative) or "-",
        adapters,
        _yes(able.data_parallel),
        _yes(able.multi_host),
        _yes(able.disaggregated),
        ", ".join(able.tasks),
    ]
    return f"| {' | '.join(cells)} |"


def _yes(value: bool) -> str:
    return "yes" if value else "-"


def _code(metric: str | None) -> str:
    return "none" if metric is None else f"`{metric}`"
