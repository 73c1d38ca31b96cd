"""Reads options and settings, and runs the pipeline from and to Pub/Sub."""

import logging
import sys
from collections.abc import Sequence
from typing import Any

import apache_beam as beam
from apache_beam.io.gcp.pubsub import PubsubMessage, ReadFromPubSub, WriteToPubSub
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

from workloads.common.logs import say, set_up

from .scoring import Message, build
from .settings import Settings, SettingsError

TIME = "time"
"""Attribute of a message with the time of its event: RFC 3339, or milliseconds since 1970. Without
it, the time is that of publishing."""


class PipelineSettings(PipelineOptions):
    """The option of this pipeline, beside those of Beam and its runners."""

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_argument("--settings", default="", help="Settings as a JSON object.")


def main(arguments: Sequence[str]) -> int:
    """Run the pipeline, and return the exit code: 2 for settings that cannot be used.

    On Dataflow, it returns when the job is submitted, as a template requires.
    """
    set_up(sys.stderr)
    options = PipelineOptions(list(arguments))
    try:
        settings = Settings.of(options.view_as(PipelineSettings).settings)
        for field in ("subscription", "scores", "totals", "dead_letters"):
            if not getattr(settings, field):
                raise SettingsError(f"{field}: must be set, got nothing")
    except SettingsError as error:
        say(logging.ERROR, str(error))
        return 2
    options.view_as(StandardOptions).streaming = True
    pipeline = beam.Pipeline(options=options)
    messages = (
        pipeline
        | "Pub/Sub"
        >> ReadFromPubSub(
            subscription=settings.subscription, with_attributes=True, timestamp_attribute=TIME
        )
        | "Messages" >> beam.Map(lambda each: Message(each.data, dict(each.attributes or {})))
    )
    outputs = build(messages, settings)
    topics = (settings.scores, settings.totals, settings.dead_letters)
    for name, found, topic in zip(outputs._fields, outputs, topics, strict=True):
        (
            found
            | f"Publishable {name}"
            >> beam.Map(lambda each: PubsubMessage(each.data, dict(each.attributes)))
            | f"Publish {name}" >> WriteToPubSub(topic, with_attributes=True)
        )
    result: Any = pipeline.run()
    if options.view_as(StandardOptions).runner != "DataflowRunner":
        result.wait_until_finish()
    return 0
