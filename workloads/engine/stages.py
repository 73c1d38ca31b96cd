"""How far an engine is with its start, by what it writes."""

import re

_PATTERNS: "dict[str, tuple[tuple[str, str], ...]]" = {
    # v1/worker/gpu_model_runner.py, v1/engine/core.py, entrypoints; tpu_inference runner
    "vllm": (
        (
            r"Start compiling|Compiling a graph|bytecode transform|apturing CUDA|[Pp]recompil",
            "compile",
        ),
        (r"Graph capturing finished|init engine .*took|Starting vLLM API", "warm"),
    ),
    # srt/model_executor/model_runner.py
    "sglang": (
        (r"Capture cuda graph begin|torch compile", "compile"),
        (r"Capture cuda graph end|Uvicorn running|warmup", "warm"),
    ),
    "triton": ((r"Started .*Service|Uvicorn running", "warm"),),
    "tgi": ((r"Cuda Graphs are enabled|Warming up model", "warm"),),
    "diffusion": ((r"[Cc]ompil", "compile"), (r"[Ww]arm", "warm")),
}
_COMPILED = {
    engine: tuple((re.compile(pattern), stage) for pattern, stage in patterns)
    for engine, patterns in _PATTERNS.items()
}


def stage_of(engine: str, line: str) -> "str | None":
    """Return the stage that a line of an engine tells of, or None."""
    for pattern, stage in reversed(_COMPILED.get(engine, ())):
        if pattern.search(line):
            return stage
    return None
