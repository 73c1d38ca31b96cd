"""Alert policies of the stack, and the notifications of its receivers."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gke_inference.observability.alert_source import Alert
from gke_inference.observability.alert_source import alerts as alerts_of
from gke_inference.observability.alerts import KINDS, is_notified
from gke_inference.observability.promql import Dialect
from infra.deploy.observability import scope
from infra.stack import Layer, Receiver, Severity
from scripts.accept.deployed import Deployed, Object, seen
from scripts.accept.row import Row, Subject

_MONITORING: Final = "monitoring.googleapis.com/v3/projects"


def alerts(deployed: Deployed) -> Iterator[Row]:
    """Yield whether the alert policies are enabled and notify each receiver of the stack."""
    settings = deployed.plan.platform.monitoring
    if deployed.plan.platform.layer is Layer.PLATFORM:
        subject = Subject("alerts", deployed.stack, "no promise")
        yield subject.skipped("alerts are those of the serving stacks")
        return
    if not settings.alerts:
        yield Subject("alerts", deployed.stack, "no promise").skipped("monitoring.alerts is off")
        return
    wanted = alerts_of(scope(deployed.plan), Dialect.MANAGED)
    subject = Subject("alerts", deployed.stack, f"{len(wanted)} policies, all enabled")
    policies: dict[str, Object] = {}

    def look() -> Row:
        policies.update(_policies(deployed))
        return _judged(subject, wanted, policies)

    row = seen(subject, look)
    yield row
    if row.is_unseen:
        return
    for name, receiver in settings.notify.items():
        yield _receiver(deployed, name, receiver, wanted, policies)
    yield from _delivery(deployed)


def _title(deployed: Deployed) -> str:
    return deployed.plan.names.title()


def _policies(deployed: Deployed) -> Iterator[tuple[str, Object]]:
    """Yield the alert policies of the stack by the name of their alert.

    Raises:
        CloudError: Google refuses.
    """
    start = f"{_title(deployed)}: "
    url = f"{_MONITORING}/{deployed.plan.platform.project}/alertPolicies"
    for policy in deployed.cloud.pages(url, "alertPolicies"):
        name = str(policy.get("displayName", ""))
        if name.startswith(start):
            yield name.removeprefix(start), policy


def _judged(subject: Subject, wanted: Sequence[Alert], policies: Mapping[str, Object]) -> Row:
    problems = [f"{each.name} has no policy" for each in wanted if each.name not in policies]
    problems += [
        f"{each.name} is disabled"
        for each in wanted
        if not policies.get(each.name, {}).get("enabled", True)
    ]
    if problems:
        return subject.not_met("; ".join(problems))
    return subject.met(f"{len(wanted)} policies, all enabled")


def _receiver(
    deployed: Deployed,
    name: str,
    receiver: Receiver,
    wanted: Sequence[Alert],
    policies: Mapping[str, Object],
) -> Row:
    notified = [each for each in wanted if is_notified(receiver.severity, Severity(each.severity))]
    what = "critical ones" if receiver.severity is Severity.CRITICAL else "all"
    predicted = f"{receiver.kind.value}; notified of {len(notified)} alerts ({what})"
    subject = Subject("receiver", name, predicted)

    def look() -> Row:
        url = f"{_MONITORING}/{deployed.plan.platform.project}/notificationChannels"
        shown = f"{_title(deployed)}: {name}"
        channels = [
            each
            for each in deployed.cloud.pages(url, "notificationChannels")
            if each.get("displayName") == shown
        ]
        if not channels:
            return subject.not_met("there is no notification channel")
        return judged_channel(subject, channels[0], receiver, notified, policies)

    return seen(subject, look)


def judged_channel(
    subject: Subject,
    channel: Object,
    receiver: Receiver,
    notified: Sequence[Alert],
    policies: Mapping[str, Object],
) -> Row:
    """Return whether a channel is enabled, has the receiver's kind, and is on its policies.

    Fields: docs.cloud.google.com/monitoring/api/ref_v3/rest/v3/projects.notificationChannels
    (2026-11-22).
    """
    kind = KINDS[receiver.kind][0]
    if channel.get("type") != kind:
        return subject.not_met(f"the channel is {channel.get('type')}; must be {kind}")
    if not channel.get("enabled", True):
        return subject.not_met("the channel is disabled")
    if channel.get("verificationStatus") == "UNVERIFIED":
        return subject.not_met("the channel is UNVERIFIED: nothing is sent to it")
    silent = [
        each.name
        for each in notified
        if channel["name"] not in policies.get(each.name, {}).get("notificationChannels", [])
    ]
    if silent:
        return subject.not_met(f"is not notified of {', '.join(silent)}")
    return subject.met(f"{receiver.kind.value}; on the policies of {len(notified)} alerts")


def _delivery(deployed: Deployed) -> Iterator[Row]:
    """Yield the checks of notifications, which are skipped, with the reason."""
    subject = Subject("alert delivery", deployed.stack, "a notification arrives")
    if not deployed.plan.platform.monitoring.notify:
        says = "the stack has no monitoring.notify: incidents appear only in the console"
    elif deployed.is_twin:
        says = "the twin sends no notifications"
    else:
        says = "Cloud Monitoring sends test notifications only from its console"
    yield subject.skipped(says)
