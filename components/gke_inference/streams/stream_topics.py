"""Pub/Sub resources of a stream: the source of messages, answers and dead letters."""

from typing import Annotated, NotRequired, TypedDict

import pulumi
from pulumi_gcp import pubsub
from pydantic import Field

from gke_inference.base.checked import checked
from gke_inference.base.inputs import under, user_labels
from gke_inference.base.propagation import until_effective
from gke_inference.base.service_agents import PUBSUB
from gke_inference.settings.fields import TableName
from gke_inference.streams.table_grants import let_insert

ACK_DEADLINE_SECONDS = 60
"""Deadline of the subscriptions. Workers extend it while a request runs."""
MOST_DELIVERIES = 100
"""Deliveries after which Pub/Sub itself dead-letters a message, its maximum. Workers count
attempts; this is for messages that crash the worker."""
_RETENTION = "604800s"
_LONGEST_WAIT_SECONDS = 60
"""Workers themselves wait for a busy pool, so messages of a crashed worker are redelivered soon."""
_NEVER = ""
"""TTL of an unused subscription. Without it, the subscription expires after 31 days."""


class StreamTopicsArgs(TypedDict):
    """Inputs of `StreamTopics`."""

    project: str
    """Project of the topics and subscriptions."""
    project_number: str
    """Number of that project, part of the Pub/Sub service agent's name."""
    stream_name: str
    """Name of the topic, and prefix of the other names."""
    worker: pulumi.Input[str]
    """IAM member of the workers."""
    keeps_results: NotRequired[bool]
    """Whether answers go to a topic with a subscription. Default: false."""
    labels: NotRequired[dict[str, str]]
    """Additional labels for topics and subscriptions."""
    ordered: NotRequired[bool]
    """Whether messages with the same ordering key are answered in order. Default: false."""
    results_table: NotRequired[TableName]
    """Table that workers may write to, `PROJECT.DATASET.TABLE`. Default: none."""
    retry_seconds: NotRequired[Annotated[int, Field(ge=0, le=600)]]
    """Minimum redelivery delay, in seconds. Default: 10."""
    topic: NotRequired[str]
    """Existing topic, `projects/P/topics/T`. Default: a topic is created."""


class StreamTopics(pulumi.ComponentResource):
    """A topic with a subscription for the workers, and a topic with one for dead letters.

    Workers get Pub/Sub permissions on these resources only. Pub/Sub's service agent may publish
    dead letters and acknowledge moved messages, which dead-lettering requires.
    """

    dead_letters: pulumi.Output[str]
    """Dead letter topic, `projects/P/topics/T`."""
    results: pulumi.Output[str]
    """Answer topic, `projects/P/topics/T`, or empty if answers go elsewhere."""
    subscription: pulumi.Output[str]
    """Subscription of the workers, `projects/P/subscriptions/S`."""
    topic: pulumi.Output[str]
    """Message topic, `projects/P/topics/T`."""

    def __init__(
        self, name: str, args: StreamTopicsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:StreamTopics", name, {}, opts)
        args = self._args = checked(StreamTopicsArgs, args)
        self._labels = user_labels(args, "stream")
        retry = args.get("retry_seconds", 10)
        stream = args["stream_name"]
        given = args.get("topic")
        topic = pulumi.Output.from_input(given) if given else self._topic(name, stream).id
        letters = self._topic(f"{name}-dead-letters", f"{stream}-dead-letters")
        agent = PUBSUB.member(args["project_number"])
        identity = PUBSUB.ensure(name, args["project"], self)
        forwards = pubsub.TopicIAMMember(
            f"{name}-dead-letters-agent",
            member=agent,
            project=args["project"],
            role="roles/pubsub.publisher",
            topic=letters.name,
            opts=under(self, depends_on=[identity], hooks=until_effective(self, name)),
        )
        read = pubsub.Subscription(
            f"{name}-subscription",
            ack_deadline_seconds=ACK_DEADLINE_SECONDS,
            dead_letter_policy={
                "dead_letter_topic": letters.id,
                "max_delivery_attempts": MOST_DELIVERIES,
            },
            enable_message_ordering=args.get("ordered", False),
            expiration_policy={"ttl": _NEVER},
            labels=self._labels,
            message_retention_duration=_RETENTION,
            name=stream,
            project=args["project"],
            retry_policy={
                "maximum_backoff": f"{max(retry, _LONGEST_WAIT_SECONDS)}s",
                "minimum_backoff": f"{retry}s",
            },
            topic=topic,
            opts=under(self, depends_on=[forwards]),
        )
        self._grant(f"{name}-agent", read, agent)  # after `forwards`, as the subscription is
        self._grant(f"{name}-worker", read, args["worker"])
        self._keep(f"{name}-dead-letters", f"{stream}-dead-letters", letters)
        self._let_publish(f"{name}-dead-letters", letters)
        self.results = pulumi.Output.from_input("")
        if args.get("keeps_results", False):
            results = self._topic(f"{name}-results", f"{stream}-results")
            self._keep(f"{name}-results", f"{stream}-results", results)
            self._let_publish(f"{name}-results", results)
            self.results = results.id
        if table := args.get("results_table"):
            let_insert(self, name, table, args["worker"])
        self.dead_letters = letters.id
        self.subscription = read.id
        self.topic = topic
        self.register_outputs(
            {
                "deadLetters": self.dead_letters,
                "results": self.results,
                "subscription": self.subscription,
                "topic": self.topic,
            }
        )

    def _topic(self, name: str, physical: str) -> pubsub.Topic:
        return pubsub.Topic(
            f"{name}-topic",
            labels=self._labels,
            name=physical,
            project=self._args["project"],
            opts=under(self),
        )

    def _keep(self, name: str, physical: str, topic: pubsub.Topic) -> None:
        """Build a subscription. Without one, a topic retains nothing."""
        pubsub.Subscription(
            f"{name}-subscription",
            ack_deadline_seconds=ACK_DEADLINE_SECONDS,
            enable_message_ordering=self._args.get("ordered", False),
            expiration_policy={"ttl": _NEVER},
            labels=self._labels,
            message_retention_duration=_RETENTION,
            name=physical,
            project=self._args["project"],
            topic=topic.id,
            opts=under(self),
        )

    def _grant(
        self, name: str, subscription: pubsub.Subscription, member: pulumi.Input[str]
    ) -> None:
        pubsub.SubscriptionIAMMember(
            f"{name}-reads",
            member=member,
            project=self._args["project"],
            role="roles/pubsub.subscriber",
            subscription=subscription.name,
            opts=under(self),
        )

    def _let_publish(self, name: str, topic: pubsub.Topic) -> None:
        pubsub.TopicIAMMember(
            f"{name}-worker",
            member=self._args["worker"],
            project=self._args["project"],
            role="roles/pubsub.publisher",
            topic=topic.name,
            opts=under(self),
        )
