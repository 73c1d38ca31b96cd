"""Pub/Sub: Google's checks for subscriptions, and the service agent's permissions."""

import re
from collections.abc import Iterable
from typing import Final

from twin.wire.property_values import CloudError, Json, as_object
from twin.world.rules import all_rules
from twin.world.store import Store

TOPIC: Final = "gcp:pubsub/topic:Topic"
SUBSCRIPTION: Final = "gcp:pubsub/subscription:Subscription"
_MEMBERS: Final = {
    "gcp:pubsub/topicIAMMember:TopicIAMMember": ("topic", "topics"),
    "gcp:pubsub/subscriptionIAMMember:SubscriptionIAMMember": ("subscription", "subscriptions"),
}
_AGENT: Final = re.compile(r"serviceAccount:service-\d+@gcp-sa-pubsub\.iam\.gserviceaccount\.com")
_NAME: Final = re.compile(r"(?!goog)[A-Za-z][-A-Za-z0-9._~+%]{2,254}")
_UNKNOWN: Final = ("filter", "messageTransforms")


def _refused(field: str, wanted: str, got: object) -> CloudError:
    return CloudError(400, f"{field}: must be {wanted}, got {got}", "invalid")


def check_name(values: Json, *_: object) -> None:
    """Reject a topic or subscription name that Google would reject.

    Raises:
        CloudError: the name is not valid.
    """
    name = str(values.get("name"))
    if not _NAME.fullmatch(name):
        wanted = "3 to 255 letters, digits and -._~+%, a letter first, and not begin with goog"
        raise _refused("name", wanted, name)


def check_subscription(values: Json, *_: object) -> None:
    """Reject subscription values that Google would reject.

    Raises:
        CloudError: the first error.
    """
    check_name(values)
    rules = all_rules()
    least = int(rules["pubsub.deadline.least"].value)
    most = int(rules["pubsub.deadline.most"].value)
    deadline = values.get("ackDeadlineSeconds")
    if deadline is not None and not least <= int(deadline) <= most:
        raise _refused("ackDeadlineSeconds", f"{least} to {most}", int(deadline))
    policy = as_object(values.get("deadLetterPolicy")) or {}
    tries = policy.get("maxDeliveryAttempts")
    fewest = int(rules["pubsub.attempts.least"].value)
    highest = int(rules["pubsub.attempts.most"].value)
    if tries is not None and not fewest <= int(tries) <= highest:
        raise _refused("deadLetterPolicy.maxDeliveryAttempts", f"{fewest} to {highest}", int(tries))
    backoff = as_object(values.get("retryPolicy")) or {}
    longest = int(rules["pubsub.backoff.most"].value)
    for field in ("minimumBackoff", "maximumBackoff"):
        if (
            field in backoff
            and not 0 <= _seconds(f"retryPolicy.{field}", backoff[field]) <= longest
        ):
            raise _refused(f"retryPolicy.{field}", f"0s to {longest}s", backoff[field])
    shortest = int(rules["pubsub.retention.least"].value)
    longest = int(rules["pubsub.retention.most"].value)
    kept = values.get("messageRetentionDuration")
    if kept and not shortest <= _seconds("messageRetentionDuration", kept) <= longest:
        raise _refused("messageRetentionDuration", f"{shortest}s to {longest}s", kept)
    if values.get("enableExactlyOnceDelivery") or any(values.get(field) for field in _UNKNOWN):
        text = "the twin has no exactly-once delivery, filters or transforms of messages"
        raise CloudError(400, text, "unimplemented")


def _seconds(field: str, text: object) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)s", str(text))
    if match is None:
        raise _refused(field, "seconds such as 10s", text)
    return float(match[1])


def grants(store: Store, without: Iterable[str] = ()) -> list[str]:
    """Return the permissions of Pub/Sub's service agents: `RESOURCE ROLE`, sorted.

    Args:
        store: store of the twin.
        without: IDs of grants that are being deleted.
    """
    gone = set(without)
    found: set[str] = set()
    for kind, (field, folder) in _MEMBERS.items():
        for record in store.find(kind):
            member, name = str(record.inputs.get("member")), str(record.inputs.get(field))
            if record.id in gone or not _AGENT.fullmatch(member):
                continue
            project = record.outputs.get("project") or record.inputs.get("project")
            path = name if "/" in name else f"projects/{project}/{folder}/{name}"
            found.add(f"{path} {record.inputs.get('role')}")
    return sorted(found)
