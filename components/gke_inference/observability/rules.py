"""Rules of receivers and budgets that hold for stacks and for components."""

from collections.abc import Iterator
from typing import Final

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import join

from .settings import ReceiverKind

_NEEDS: Final = {
    ReceiverKind.EMAIL: "address",
    ReceiverKind.SLACK: "channel",
}


def check_receiver(
    where: str, kind: ReceiverKind, *, address: str | None, channel: str | None
) -> Iterator[InputError]:
    """Yield the fields that a kind of receiver needs and lacks, and those that it does not have.

    Args:
        where: Path of the receiver.
        kind: Its kind.
        address: Its address, if it has one.
        channel: Its channel, if it has one.
    """
    for field, value in {"address": address, "channel": channel}.items():
        if field == _NEEDS.get(kind):
            if not value:
                yield InputError(join(where, field), f"is required when kind is {kind.value}")
        elif value is not None:
            yield InputError(
                join(where, field), f"must not be set when kind is {kind.value}", value
            )


def check_recipients(
    where: str, channels: str, *, billing_admins: bool, has_channels: bool, has_topic: bool
) -> Iterator[InputError]:
    """Yield the problem of a budget that notifies nobody.

    Args:
        where: Path of the budget, or an empty text.
        channels: Field of its channels.
        billing_admins: Whether it notifies the account's administrators and users.
        has_channels: Whether it notifies channels of receivers.
        has_topic: Whether it notifies programs.
    """
    if not (billing_admins or has_channels or has_topic):
        rule = f"must be true, or {channels} or topic must be set: nobody would be notified"
        yield InputError(join(where, "billing_admins"), rule, billing_admins)
