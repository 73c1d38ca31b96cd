"""Rules about streams: a readable source, a model that answers, and matching results."""

import re
from collections.abc import Iterator

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import join, one_of
from gke_inference.streams.rules import check_workers
from infra.rules.clients import check_asking
from infra.stack import Clients, Layer, Platform, ResultsKind, SourceKind, Stream

_TOPIC = re.compile(r"projects/[^/]+/topics/[^/]+")
_KAFKA_TOPIC = re.compile(r"[-._A-Za-z0-9]{1,249}")
_BROKER = re.compile(r"[A-Za-z0-9]([-.A-Za-z0-9]*[A-Za-z0-9])?:[0-9]{1,5}")
_LARGEST_PORT = 65_535
_LONGEST_NAME = 30  # with the longest prefix and environment, its topic has 63 characters


def check_streams(platform: Platform) -> Iterator[InputError]:
    """Yield the problems of a platform's streams."""
    if platform.streams and platform.layer is not Layer.ALL:
        rule = "must not be set when layer is platform or serving"
        yield InputError("streams", rule, len(platform.streams))
        return
    for name, stream in platform.streams.items():
        where = join("streams", name)
        if len(name) > _LONGEST_NAME:
            rule = f"must be a name of at most {_LONGEST_NAME} characters"
            yield InputError(where, rule, name)
        for end in ("-results", "-dead-letters"):
            other = name.removesuffix(end)
            if other != name and other in platform.streams:
                rule = f"must not end in {end}: the topic of streams.{other} has this name"
                yield InputError(where, rule, name)
        model = platform.models.get(stream.model)
        if model is not None and not model.task.is_text:
            rule = "must be a model of task generate or embed: answers are messages of text"
            yield InputError(join(where, "model"), rule, stream.model)
        yield from check_asking(platform, where, stream)
        if model is not None and stream.team is not None:
            yield from _check_team(platform.gated_clients(), where, stream, stream.team)
        yield from _check_source(where, stream)
        yield from _check_results(where, stream)
        workers, is_kafka = stream.workers, stream.source.kind is SourceKind.KAFKA
        least = join(where, "workers", "min")
        yield from check_workers(least, workers.min, workers.max, is_kafka=is_kafka)


def _check_team(
    clients: Clients | None, where: str, stream: Stream, team: str
) -> Iterator[InputError]:
    if clients is None or team not in clients.teams:
        teams = [] if clients is None else sorted(clients.teams)
        yield one_of(join(where, "team"), team, teams)
    elif stream.key_secret is None or not clients.acting_teams:
        rule = "needs key_secret, with a key of a team with acts_for_teams: true"
        yield InputError(join(where, "team"), rule, team)


def _check_source(where: str, stream: Stream) -> Iterator[InputError]:
    source, path = stream.source, join(where, "source")
    if source.kind is SourceKind.PUBSUB:
        if source.topic is not None and not _TOPIC.fullmatch(source.topic):
            rule = "must be projects/PROJECT/topics/TOPIC"
            yield InputError(join(path, "topic"), rule, source.topic)
        for field in ("brokers", "group", "secret"):
            if getattr(source, field):
                rule = "must not be set when kind is pubsub"
                yield InputError(join(path, field), rule, getattr(source, field))
        return
    if source.topic is None or not _KAFKA_TOPIC.fullmatch(source.topic):
        rule = "must be the name of a Kafka topic when kind is kafka"
        yield InputError(join(path, "topic"), rule, source.topic)
    if not source.brokers:
        yield InputError(join(path, "brokers"), "must have a broker when kind is kafka", 0)
    for at, broker in enumerate(source.brokers):
        if not _BROKER.fullmatch(broker) or int(broker.rpartition(":")[2]) > _LARGEST_PORT:
            yield InputError(join(path, "brokers", at), "must be HOST:PORT", broker)


def _check_results(where: str, stream: Stream) -> Iterator[InputError]:
    results, path = stream.results, join(where, "results")
    needs = {ResultsKind.BUCKET: "bucket", ResultsKind.BIGQUERY: "table"}
    if results.archive is not None:
        if results.kind is not ResultsKind.BUCKET:
            rule = f"must not be set when kind is {results.kind.value}"
            yield InputError(join(path, "archive"), rule, results.archive)
        elif results.bucket is not None:
            yield InputError(join(path, "bucket"), "must not be set with 'archive'")
        del needs[ResultsKind.BUCKET]
    for kind, field in needs.items():
        value = getattr(results, field)
        if results.kind is kind and value is None:
            yield InputError(join(path, field), f"is required when kind is {kind.value}")
        if results.kind is not kind and value is not None:
            rule = f"must not be set when kind is {results.kind.value}"
            yield InputError(join(path, field), rule, value)
    if results.prefix and results.kind is not ResultsKind.BUCKET:
        rule = f"must not be set when kind is {results.kind.value}"
        yield InputError(join(path, "prefix"), rule, results.prefix)
    is_kafka = stream.source.kind is SourceKind.KAFKA
    if results.topic is not None and not (is_kafka and results.kind is ResultsKind.TOPIC):
        rule = "must not be set unless a Kafka stream answers with messages"
        yield InputError(join(path, "topic"), rule, results.topic)
    elif results.topic is not None and not _KAFKA_TOPIC.fullmatch(results.topic):
        yield InputError(join(path, "topic"), "must be the name of a Kafka topic", results.topic)
    if is_kafka and results.topic is not None and results.topic == stream.source.topic:
        rule = "must differ from source.topic: answers would become messages"
        yield InputError(join(path, "topic"), rule, results.topic)
