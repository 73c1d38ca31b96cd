"""Rules between the settings of personalized images that hold for stacks and for components."""

from collections.abc import Iterable, Iterator
from typing import Final

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import join

_MEMBERS: Final = ("group:", "principal:", "principalSet:", "serviceAccount:", "user:")
_DAY_SECONDS: Final = 86_400


def check_callers(where: str, callers: Iterable[str]) -> Iterator[InputError]:
    """Yield the callers that are not members of their own, such as `allUsers`."""
    for at, member in enumerate(callers):
        if not member.startswith(_MEMBERS):
            yield InputError(join(where, at), f"must begin with {', '.join(_MEMBERS)}", member)


def check_training(where: str, train_seconds: int, retention_days: int) -> Iterator[InputError]:
    """Yield the problem of training that takes longer than its pictures are kept."""
    if train_seconds >= retention_days * _DAY_SECONDS // 2:
        rule = "must be below half of retention_days, after which the photos are deleted"
        yield InputError(where, rule, train_seconds)
