"""Rules about monitoring: each receiver has the fields that its kind needs, and no others."""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.problems import join
from gke_inference.observability.rules import check_receiver
from infra.stack import Layer, Platform


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
        where = join("monitoring", "notify", name)
        yield from check_receiver(
            where, receiver.kind, address=receiver.address, channel=receiver.channel
        )
