"""Rules between the settings of streams that hold for stacks and for the workers of a stream."""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import InputError


def check_workers(where: str, least: int, most: int, *, is_kafka: bool) -> Iterator[InputError]:
    """Yield the problems of the numbers of workers.

    Args:
        where: Path of the minimum.
        least: Minimum number of workers.
        most: Maximum number of workers.
        is_kafka: Whether the messages come from Kafka.
    """
    if least > most:
        yield InputError(where, f"must be at most max ({most})", least)
    if is_kafka and least == 0:
        rule = "must be 1 or more when the source is Kafka: the workers report its backlog"
        yield InputError(where, rule, least)
