"""The speed of the compiled engines, in requests per second of processor time."""

import resource
from collections.abc import Iterator
from typing import Any

import numpy as np

from scripts.shared.tool_setup import ensure_tools
from simulator.engine.compiled import CompiledEngines, PickerSettings
from simulator.engine.settings import PREFIX, Deployment, deploy
from simulator.engine.stepped import Requests
from simulator.replays.modelled_picker import ModelledPicker
from simulator.replays.picker_configs import Facts, shipped
from twin.engines.vllm_flags import parse

_REQUESTS = 300_000
_PER_REPLICA = 12.5
"""Requests per second of each replica."""
_STEP_SECONDS = 15.0
"""Time between two decisions of a HorizontalPodAutoscaler: the engines are advanced by it."""
_PROMPT, _ANSWER = (1200, 1.0), (200, 0.8)
"""Mean and sigma of lognormal lengths."""
_LONGEST = 30_000
_GROUPS, _PREFIX = 100, 600
Row = dict[str, Any]


def replay_rows() -> Iterator[Row]:
    """Measure Llama 3.1 8B on H100: 300,000 requests, by replicas, routing and prefixes."""
    ensure_tools("replays")
    surroundings = {PREFIX + "ACCELERATOR": "nvidia-h100-80gb"}
    made = deploy(parse(["meta-llama/Llama-3.1-8B"]), surroundings)
    picker = ModelledPicker(shipped(Facts())).settings
    for replicas in (1, 40):
        yield _row(made, replicas, "round-robin", is_shared=False)
    yield _row(made, 40, "least-request", is_shared=False)
    for route in ("round-robin", picker):
        yield _row(made, 40, route, is_shared=True)


def _row(made: Deployment, replicas: int, route: str | PickerSettings, *, is_shared: bool) -> Row:
    requests = _requests(replicas, is_shared=is_shared)
    before, own = (resource.getrusage(who) for who in _BOTH)
    engines = CompiledEngines([made], route)
    engines.serve(0, [engines.add(0, 0.0) for _ in range(replicas)])
    answered, sent, until = 0, 0, 0.0
    while sent < _REQUESTS:
        until += _STEP_SECONDS
        end = int(np.searchsorted(requests.seconds, until, side="right"))
        engines.advance(requests.part(sent, end), until)
        answered += len(engines.finished().number)
        sent = end
    engines.advance(Requests.none(), until + 1e6)
    answered += len(engines.finished().number)
    hits = engines.prefix_stats()
    engines.close()
    after, ours = (resource.getrusage(who) for who in _BOTH)
    seconds = after.ru_utime - before.ru_utime
    return {
        "replicas": replicas,
        "routing": route if isinstance(route, str) else "picker",
        "shared_prefixes": _GROUPS if is_shared else 0,
        "answered": answered,
        "hits": round(hits.hits / hits.queries, 3),
        "user_s": round(seconds, 2),
        "python_user_s": round(ours.ru_utime - own.ru_utime, 2),
        "requests_per_s": round(_REQUESTS / seconds),
        "peak_mib": after.ru_maxrss // 1024,
    }


_BOTH = (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF)


def _requests(replicas: int, *, is_shared: bool) -> Requests:
    random = np.random.default_rng(1)
    seconds = np.cumsum(random.exponential(1 / (_PER_REPLICA * replicas), _REQUESTS))
    prompt, answer = (
        np.clip(random.lognormal(np.log(mean) - sigma**2 / 2, sigma, _REQUESTS), 1, _LONGEST)
        for mean, sigma in (_PROMPT, _ANSWER)
    )
    none = np.zeros(_REQUESTS, np.int64)
    return Requests(
        np.arange(_REQUESTS),
        seconds,
        none,
        prompt.astype(np.int64) + (_PREFIX if is_shared else 0),
        answer.astype(np.int64),
        random.integers(0, _GROUPS, _REQUESTS) if is_shared else none - 1,
        none + _PREFIX,
    )
