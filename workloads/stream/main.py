"""Starts a worker: reads settings, opens source and results, serves metrics and health."""

import asyncio
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

import aiohttp

from workloads.common.logs import say, set_up
from workloads.common.pressure import Pressure, look
from workloads.common.sending import Sender
from workloads.common.serving import stopping, watch

from .asking import Asking
from .metrics import Metrics
from .results import BigQueryResults, BucketResults, Publishes, Results, TopicResults
from .settings import Settings, SettingsError, read_settings
from .source import Source, SourceError
from .worker import Worker


def main(arguments: Sequence[str]) -> int:
    """Run until SIGTERM and return the exit code: 2 for settings that cannot be used."""
    set_up(sys.stderr)
    try:
        if len(arguments) != 1:
            raise SettingsError(f"arguments: must be one file of settings, got {len(arguments)}")
        settings = read_settings(Path(arguments[0]))
    except SettingsError as error:
        say(logging.ERROR, str(error))
        return 2
    try:
        asyncio.run(_run(settings))
    except SourceError as error:
        say(logging.ERROR, str(error))
        return 1
    return 0


async def _run(settings: Settings) -> None:
    stop = stopping()
    metrics = Metrics(settings.stream)
    pressure = Pressure(settings.max_in_flight)
    async with aiohttp.ClientSession(trust_env=True) as session:
        sender = Sender(
            session,
            settings.endpoint,
            settings.key_file,
            settings.first_wait_seconds,
            settings.longest_wait_seconds,
        )
        attempts, retried = settings.attempts, metrics.retried
        asking = Asking(sender, pressure, attempts=attempts, retried=retried)
        source, letters, results = _opened(settings, session, metrics)
        worker = Worker(settings, source, asking, results, letters, metrics, pressure)

        def text() -> bytes:
            worker.watch()
            return metrics.text()

        served = await watch(settings.address, settings.port, text, lambda: not worker.is_draining)
        say(logging.INFO, "working", stream=settings.stream)
        pickers = [settings.metrics_of_picker] if settings.metrics_of_picker else []
        looking = asyncio.create_task(look(pickers, settings.queue_most, session, pressure))
        try:
            await worker.run(stop)
        finally:
            looking.cancel()
            await served.cleanup()


def _opened(
    settings: Settings, session: aiohttp.ClientSession, metrics: Metrics
) -> tuple[Source, Publishes, Results]:
    """Return source, dead letters and results; the client of the other system is not loaded."""
    lease = 2 * settings.deadline_seconds
    source: Source
    letters: Publishes
    if settings.source["kind"] == "kafka":
        from .kafka import KafkaSource, KafkaTopic  # noqa: PLC0415

        source = KafkaSource(settings.source, settings.max_in_flight, metrics.lag)
        letters = KafkaTopic(settings.source, settings.dead_letters)
    else:
        from .pubsub import PubSubSource, PubSubTopic  # noqa: PLC0415

        name = str(settings.source["subscription"])
        source = PubSubSource(name, settings.max_in_flight, lease)
        letters = PubSubTopic(settings.dead_letters)
    return source, letters, _results(settings, session)


def _results(settings: Settings, session: aiohttp.ClientSession) -> Results:
    results = settings.results
    if results["kind"] == "bucket":
        prefix = str(results.get("prefix", ""))
        return BucketResults(settings.stream, session, results["bucket"], prefix)
    if results["kind"] == "bigquery":
        return BigQueryResults(settings.stream, session, results["table"])
    if settings.source["kind"] == "kafka":
        from .kafka import KafkaTopic  # noqa: PLC0415

        return TopicResults(settings.stream, KafkaTopic(settings.source, results["topic"]))
    from .pubsub import PubSubTopic  # noqa: PLC0415

    return TopicResults(settings.stream, PubSubTopic(results["topic"]))
