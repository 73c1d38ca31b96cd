"""Rules about monitoring: each receiver has the fields that its kind needs, and no others."""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import Bare, InputError
from infra.stack import Layer, Platform, ReceiverKind
from infra.stack.problems import join

_NEEDS = {
    ReceiverKind.EMAIL: "address",
    ReceiverKind.SLACK: "channel",
}


def check_monitoring(platform: Platform) -> Iterator[InputError]:
    """Yield the problems of a platform's receivers."""
    if platform.monitoring.notify and not platform.monitoring.alerts:
        count = len(platform.monitoring.notify)
        where = join("monitoring", "notify")
        yield InputError(where, "must not be set when alerts is false", count, " receivers")
    is_watched = platform.layer is not Layer.PLATFORM and platform.monitoring.alerts
    if platform.protection and is_watched and not platform.monitoring.notify:
        rule = "must have a receiver when protection is on: critical alerts would reach nobody"
        yield InputError(join("monitoring", "notify"), rule, Bare("none"))
    for name, receiver in platform.monitoring.notify.items():
        needed = _NEEDS.get(receiver.kind)
        for field in sorted(_NEEDS.values()):
            where = join("monitoring", "notify", name, field)
            value = getattr(receiver, field)
            if field == needed and value is None:
                yield InputError(where, f"is required when kind is {receiver.kind.value}")
            if field != needed and value is not None:
                yield InputError(
                    where, f"must not be set when kind is {receiver.kind.value}", value
                )
