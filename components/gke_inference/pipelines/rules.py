"""Rules between the settings of a pipeline that hold for stacks and for the component."""

from collections.abc import Iterator, Sequence

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import join

from .settings import WINDOW_FEATURES


def check_features(where: str, features: Sequence[str]) -> Iterator[InputError]:
    """Yield the problems of the list of features."""
    path = join(where, "features") if where else "features"
    if not features:
        yield InputError(path, "must have an entry", 0)
    for at, name in enumerate(features):
        if name in features[:at]:
            yield InputError(join(path, at), "must be listed once", name)


def check_value(where: str, value: str) -> Iterator[InputError]:
    """Yield the problem of the field that is summed."""
    if value in WINDOW_FEATURES:
        yield InputError(join(where, "value"), "must be a field of an event", value)


def check_workers(where: str, least: int, most: int) -> Iterator[InputError]:
    """Yield the problems of the numbers of workers.

    Args:
        where: Path of the minimum.
        least: Number of workers at the start.
        most: Maximum number of workers.
    """
    if least > most:
        yield InputError(where, f"must be at most max ({most})", least)
