"""A Pub/Sub subscription as the source, and topics for answers and dead letters."""

import asyncio
import concurrent.futures
import contextlib
import importlib
import time
from collections.abc import Callable
from typing import Any, Final

from workloads.common.google_imports import without_warnings

from .messages import Message
from .source import Delivery, SourceError, TooLarge

# The environment of this program alone has them: twin/engines/stream_worker.py says why.
with without_warnings():
    exceptions: Any = importlib.import_module("google.api_core.exceptions")
    pubsub_v1: Any = importlib.import_module("google.cloud.pubsub_v1")
    publisher_errors: Any = importlib.import_module("google.cloud.pubsub_v1.publisher.exceptions")
    schedulers: Any = importlib.import_module("google.cloud.pubsub_v1.subscriber.scheduler")

_THREADS: Final = 4
_PUBLISH_SECONDS: Final = 60.0
_FLUSH_SECONDS: Final = 10.0
_EXTENSION_SECONDS: Final = 60


class PubSubSource:
    """Streaming pull of one subscription.

    The client extends the lease of what it holds, and hands out one message of an ordering key at a
    time. Once the pull has to stop, this class extends and ends the leases itself: what is given
    back would else come to the same worker again.

    Args:
        subscription: `projects/P/subscriptions/S`.
        most: Messages to hold at once.
        lease_seconds: How long a lease is extended at most.
    """

    def __init__(self, subscription: str, most: int, lease_seconds: float) -> None:
        self._subscription = subscription
        self._most = most
        self._lease_seconds = lease_seconds
        self._client: Any = pubsub_v1.SubscriberClient()
        self._pull: Any = None
        self._held: dict[str, Any] = {}
        self._calls = concurrent.futures.ThreadPoolExecutor(_THREADS)
        self._is_stopped = False
        self._extending: asyncio.Task[None] | None = None

    def start(self, receive: Callable[[Delivery], None]) -> None:
        """Start pulling."""

        def take(received: Any) -> None:
            self._held[received.ack_id] = received
            message = Message(
                id=received.message_id,
                data=received.data,
                attributes=dict(received.attributes),
                key=received.ordering_key,
                delivery=received.delivery_attempt or 1,
            )
            receive(
                Delivery(
                    message,
                    lambda: self._end(received, answered=True),
                    lambda: self._end(received, answered=False),
                )
            )

        flow = pubsub_v1.types.FlowControl(
            max_messages=self._most,
            max_lease_duration=self._lease_seconds,
            min_duration_per_lease_extension=10,
            max_duration_per_lease_extension=60,
        )
        pool = concurrent.futures.ThreadPoolExecutor(_THREADS)
        self._pull = self._client.subscribe(
            self._subscription,
            callback=take,
            flow_control=flow,
            scheduler=schedulers.ThreadScheduler(pool),
        )

    async def ended(self) -> None:
        """Wait until the pull ends by itself.

        Raises:
            SourceError: Why.
        """
        try:
            await asyncio.wrap_future(self._pull)
        except exceptions.GoogleAPICallError as error:
            name = type(error).__name__
            raise SourceError(f"{self._subscription}: {name}: {error.message}") from None
        except asyncio.CancelledError:
            if not self._is_stopped:
                raise

    async def stop(self) -> None:
        """Stop pulling, and keep the leases of held messages."""
        self._is_stopped = True
        self._pull.cancel()
        await asyncio.to_thread(_quietly, self._pull)
        self._extend(_EXTENSION_SECONDS, list(self._held))
        self._extending = asyncio.create_task(self._keep_extending())

    async def close(self) -> None:
        """Send the last acknowledgements."""
        if self._extending is not None:
            self._extending.cancel()
        await asyncio.to_thread(self._calls.shutdown)
        await asyncio.to_thread(self._client.close)

    def _end(self, received: Any, *, answered: bool) -> None:
        self._held.pop(received.ack_id, None)
        if not self._is_stopped:
            (received.ack if answered else received.nack)()
        elif answered:
            asked = {"subscription": self._subscription, "ack_ids": [received.ack_id]}
            self._calls.submit(self._client.acknowledge, request=asked)
        else:
            self._extend(0, [received.ack_id])

    def _extend(self, seconds: int, ack_ids: list[str]) -> None:
        if ack_ids:
            asked = {
                "subscription": self._subscription,
                "ack_ids": ack_ids,
                "ack_deadline_seconds": seconds,
            }
            self._calls.submit(self._client.modify_ack_deadline, request=asked)

    async def _keep_extending(self) -> None:
        end = time.monotonic() + self._lease_seconds
        while time.monotonic() < end:
            await asyncio.sleep(_EXTENSION_SECONDS / 3)
            self._extend(_EXTENSION_SECONDS, list(self._held))


def _quietly(pull: Any) -> None:
    with contextlib.suppress(Exception):  # it ends, whichever way
        pull.result(timeout=_FLUSH_SECONDS)


_ARGUMENTS: Final = frozenset({"topic", "data", "ordering_key", "retry", "timeout", "self"})
"""Of `PublisherClient.publish`, which takes attributes as keywords."""


class PubSubTopic:
    """Publishes to a topic, in order within a key."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        options = pubsub_v1.types.PublisherOptions(enable_message_ordering=True)
        self._client: Any = pubsub_v1.PublisherClient(publisher_options=options)

    async def publish(self, data: bytes, attributes: dict[str, str], key: str = "") -> None:
        """Publish a message; once it returns, the topic has it.

        Raises:
            TooLarge: It is larger than a topic takes.
            SourceError: The topic does not take it.
        """
        kept = {_renamed(name): value for name, value in attributes.items()}
        try:
            future = self._client.publish(self._topic, data, ordering_key=key, **kept)
        except publisher_errors.MessageTooLargeError as error:
            raise TooLarge(f"{self._topic}: {type(error).__name__}") from None
        try:
            await asyncio.wait_for(asyncio.wrap_future(future), _PUBLISH_SECONDS)
        except (exceptions.GoogleAPICallError, TimeoutError) as error:
            if key:
                self._client.resume_publish(self._topic, key)
            raise SourceError(f"{self._topic}: {type(error).__name__}") from None


def _renamed(attribute: str) -> str:
    """Return the name of an attribute: the client takes some words for its own arguments."""
    return f"original_{attribute}" if attribute in _ARGUMENTS else attribute
