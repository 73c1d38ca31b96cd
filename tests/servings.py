"""Every way in which the platform can start an engine, by its abilities."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from gke_inference.catalogue.accelerators import accelerator, accelerator_names
from gke_inference.catalogue.engines import Abilities, engine
from gke_inference.serving.launcher.spec import ImageModel, Serving, Speculation


def every_serving(name: str) -> Iterator[Serving]:
    """One model on every accelerator that an engine has, plain and with each setting it takes."""
    for word in accelerator_names():
        chip = accelerator(word)
        able = engine(name).abilities(chip.kind, word)
        if able is None:
            continue
        plain = Serving(chip.kind, "m", "/mnt/m", 4, 8192, engine=name)
        yield from _with_settings(plain, able)
        yield from _with_features(plain, able)


def _with_settings(plain: Serving, able: Abilities) -> Iterator[Serving]:
    yield plain
    for task in able.tasks:
        yield replace(plain, task=task)
    for field in ("block_size", "kv_cache_dtype", "quantization"):
        for value in getattr(able, field):
            yield replace(plain, **{field: value})
    for method in able.speculative:
        draft = "/mnt/draft" if method in ("draft", "eagle3") else None
        yield replace(plain, speculation=Speculation(method, 4, draft))


def _with_features(plain: Serving, able: Abilities) -> Iterator[Serving]:
    with_adapters = {"adapter_slots": 1, "adapters": {"sql": "/mnt/sql"}, "adapters_cached": 1}
    features: list[tuple[bool, dict[str, Any]]] = [
        (able.streamed, {"source": "gs://b/m"}),
        (able.data_parallel, {"data_parallel": 2, "tensor_parallel": 2}),
        (able.adapters, with_adapters),
        ("image" in able.tasks, {"image_models": {"mini": ImageModel("/mnt/mini", steps=20)}}),
        (
            "image" in able.tasks,
            {"image_models": {"mini": ImageModel("/mnt/mini", chips=1)}, "tensor_parallel": 4},
        ),
        (able.max_batch, {"max_batch": 64}),
        (able.prefix_caching, {"prefix_caching": False}),
        (able.traces, {"collector": "http://collector:4317"}),
        (able.multi_host, {"hosts": 2, "pipeline_parallel": 2, "spanning": "ray"}),
        (able.multi_host, {"hosts": 2, "pipeline_parallel": 2, "spanning": "engine"}),
    ]
    for has, fields in features:
        if has:
            yield replace(plain, **fields)
