"""Metrics of an engine over minutes of virtual time."""

from scripts.calibrate.series import SCRAPE_SECONDS
from simulator.demand import Generated, Pattern
from simulator.engine.core import EngineCore
from simulator.engine.metrics import EngineMetrics
from simulator.engine.request import Request
from simulator.engine.settings import Deployment


def scraped(
    deployment: Deployment,
    slowdown: float,
    rate: float,
    seconds: float = 600,
    metrics: EngineMetrics | None = None,
) -> list[str]:
    """Return an engine's metrics pages every 15 s of virtual time, under generated requests."""
    pattern = Pattern.model_validate(
        {
            "models": {"m": {"requests_per_second": rate}},
            "length_hours": seconds / 3600,
            "kinds": {
                "chat": {
                    "share": 1,
                    "prompt_tokens": [[0, 50], [50, 700], [100, 5000]],
                    "output_tokens": [[0, 10], [50, 120], [100, 600]],
                }
            },
        },
        strict=False,
    )
    engine, pages = EngineCore(deployment, metrics=metrics), list[str]()
    engine.slow_down(slowdown, 0.0)
    number, scrape = 0, 0.0
    for chunk in Generated(pattern).chunks():
        for at, prompt, output in zip(
            chunk.seconds, chunk.prompt_tokens, chunk.output_tokens, strict=True
        ):
            while scrape <= at:
                engine.advance(scrape)
                engine.news()
                pages.append(engine.metrics.render())
                scrape += SCRAPE_SECONDS
            engine.advance(float(at))
            engine.news()
            number += 1
            start = number * 100_000
            request = Request(
                str(number), range(start, start + int(prompt)), int(output), float(at),
                output=range(int(output)), tell_at=2**62,
            )  # fmt: skip
            engine.submit(request, float(at))
    return pages
