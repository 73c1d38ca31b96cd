"""Plays events to a pipeline on Beam's DirectRunner, with times that a test controls.

`python -m tests.pipelines.play SETTINGS`, in the environment of pipelines. Standard input has one
JSON object a line: `{"to": SECONDS}` advances the watermark, and `{"at": SECONDS, "data": TEXT}` is
a message. Standard output has a line for each message that the pipeline publishes.
"""

import json
import sys
import tempfile
from pathlib import Path

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.window import TimestampedValue

from workloads.pipelines.scoring import Message, build
from workloads.pipelines.settings import Settings


def main() -> None:
    """Play the events of standard input."""
    settings = Settings.of(sys.argv[1])
    stream = TestStream().advance_watermark_to(0)
    for line in sys.stdin:
        step = json.loads(line)
        if "to" in step:
            stream = stream.advance_watermark_to(step["to"])
        else:
            message = Message(step["data"].encode(), {"source": "test"})
            stream = stream.add_elements([TimestampedValue(message, step["at"])])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "published"
        file.touch()
        options = PipelineOptions(["--streaming", "--runner=DirectRunner"])
        with beam.Pipeline(options=options) as pipeline:
            outputs = build(pipeline | stream.advance_watermark_to_infinity(), settings)
            for name, found in zip(outputs._fields, outputs, strict=True):
                found | name >> beam.Map(_keep, name, str(file))
        sys.stdout.write(file.read_text())


def _keep(message: Message, name: str, file: str) -> None:
    line = {"to": name, "data": message.data.decode(), "attributes": dict(message.attributes)}
    with Path(file).open("a") as written:
        written.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
