"""Rules about monitoring: each receiver says what its kind needs, and nothing of another kind."""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import Bare, InputError
from infra.stack import Layer, Platform, ReceiverKind
from infra.stack.problems import join

_NEEDS = {
    ReceiverKind.EMAIL: "address",
    ReceiverKind.SLACK: "channel",
}


def check_monitoring(platform: Platform) -> Iterator[InputError]:
    """Yield what is wrong with the receivers of a platform."""
    if platform.monitoring.notify and not platform.monitoring.alerts:
        count = len(platform.monitoring.notify)
        where = join("monitoring", "notify")
        yield InputError(where, "must be left out where alerts is false", count, " receivers")
    is_watched = platform.layer is not Layer.PLATFORM and platform.monitoring.alerts
    if platform.protection and is_watched and not platform.monitoring.notify:
        rule = "must have a receiver where protection is on: critical alerts would reach nobody"
        yield InputError(join("monitoring", "notify"), rule, Bare("none"))
    for name, receiver in platform.monitoring.notify.items():
        needed = _NEEDS.get(receiver.kind)
        for field in sorted(_NEEDS.values()):
            where = join("monitoring", "notify", name, field)
            value = getattr(receiver, field)
            if field == needed and value is None:
                yield InputError(where, f"is required where kind is {receiver.kind.value}")
            if field != needed and value is not None:
                yield InputError(
                    where, f"must be left out where kind is {receiver.kind.value}", value
                )
