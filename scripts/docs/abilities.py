"""The table of engine capabilities by hardware, from the data that stacks are checked against."""

from gke_inference.catalogue.engines import Abilities, date, engine, engine_names, retired

_OPENING = """\
# Engine capabilities

The values of `engine` in a stack, and what each engine supports on which hardware. A stack that
asks for anything else is rejected. The data, with a source for every row, is in
[engines](../../components/gke_inference/catalogue/data/engines/README.md), compared with its
sources on {date}. For the start and the shutdown of a server, see the [launcher](../launcher.md).
"""
_HEAD = (
    "| hardware | weights | KV cache | speculative decoding | adapters | data parallel "
    "| multi-host | disaggregated | KV cache tiers | chat template, media limits | tasks |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|"
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
            f"Health `{facts.health_path}`; queue `{metrics.queue}`, batch"
            f" {_code(metrics.running)}, KV cache {_code(metrics.kv_cache)}, adapters"
            f" {_code(metrics.adapters)}.\n",
            "\n".join([_HEAD, *(_row(place, able) for place, able in rows.items())]),
            "\n" + "\n".join(f"- {place}: {able.source}" for place, able in rows.items()) + "\n",
        ]
    parts += [
        "## Rejected engines\n",
        "\n".join(f"- `{name}`: {why}" for name, why in retired().items()),
    ]
    return "\n".join(parts) + "\n"


def _row(place: str, able: Abilities) -> str:
    adapters = "yes, also live" if able.live_adapters else _yes(able.adapters)
    cells = [
        place,
        ", ".join(able.quantization) or "-",
        ", ".join(able.kv_cache_dtype) or "-",
        ", ".join(able.speculative) or "-",
        adapters,
        _yes(able.data_parallel),
        _yes(able.multi_host),
        _yes(able.disaggregated),
        _yes(able.kv_offload),
        _yes(able.chat_template and able.multimodal),
        ", ".join(able.tasks),
    ]
    return f"| {' | '.join(cells)} |"


def _yes(value: bool) -> str:
    return "yes" if value else "-"


def _code(metric: str | None) -> str:
    return "none" if metric is None else f"`{metric}`"
