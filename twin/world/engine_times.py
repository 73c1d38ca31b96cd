"""Times of an engine's start, for the simulated servers."""

from twin.world.rules import Rules


def engine_durations(rules: Rules) -> dict[str, float]:
    """Return the startup rules for an engine."""
    return {
        "initialise": rules.seconds("engine.start.initialise"),
        "weights_gb_per_second": float(rules.value("engine.weights.rate")),
        "weights_streamed_gb_per_second": float(rules.value("engine.weights.rate-streamed")),
        "compile_gpu": rules.seconds("engine.compile.gpu"),
        "compile_tpu": rules.seconds("engine.compile.tpu"),
        "compile_cached_gpu": rules.seconds("engine.compile.cached-gpu"),
        "compile_cached_tpu": rules.seconds("engine.compile.cached-tpu"),
    }
