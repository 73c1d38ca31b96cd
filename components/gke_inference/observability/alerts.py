"""Alert policies of a platform, and their notification channels."""

from collections.abc import Iterator
from typing import Annotated, Literal, NotRequired, TypedDict

import pulumi
from pulumi_gcp import monitoring
from pydantic import Field

from gke_inference.base.checked import checked, keep
from gke_inference.base.inputs import under
from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.labels import MANAGED_BY
from gke_inference.catalogue.load_balancing import HEALTH_PATH
from gke_inference.catalogue.pickers import PickerLineName
from gke_inference.catalogue.problems import join
from gke_inference.personal.settings import TrainSeconds
from gke_inference.settings.fields import Channel, EmailAddress, Port

from .alert_source import RUNBOOKS, Alert, alerts, runbook_name
from .dashboards import ObservedModelArgs, scope_of
from .promql import Dialect
from .rules import check_receiver
from .settings import (
    SECRET_KINDS,
    CostLimit,
    QueueLimit,
    ReceiverKind,
    Severity,
)

KINDS = {
    ReceiverKind.EMAIL: ("email", "email_address"),
    ReceiverKind.PAGERDUTY: ("pagerduty", None),
    ReceiverKind.SLACK: ("slack", "channel_name"),
    ReceiverKind.WEBHOOK: ("webhook_tokenauth", None),
}
"""Receiver kinds: type in Cloud Monitoring, and the label for the address or the channel."""

_UPTIME_PERIOD, _UPTIME_TIMEOUT = "60s", "10s"


class ReceiverArgs(TypedDict):
    """One notification channel."""

    kind: ReceiverKind
    """Type of the notification channel."""
    name: str
    """Name shown in the console."""
    address: NotRequired[EmailAddress]
    """Address of an email receiver."""
    channel: NotRequired[Channel]
    """Channel of a Slack receiver, such as `#oncall`."""
    secret: NotRequired[pulumi.Input[str]]
    """Token of a Slack receiver, integration key of a PagerDuty receiver, or URL of a webhook,
    including its token."""
    severity: NotRequired[Severity]
    """Minimum severity: `warning` (default) for all alerts, `critical` for urgent ones only."""


class AlertsArgs(TypedDict):
    """Inputs of `Alerts`."""

    exposure: Literal["external", "internal"]
    """From where clients connect."""
    models: Annotated[list[ObservedModelArgs], Field(min_length=1)]
    """Models, each with its engines, picker and promised latency."""
    namespace: str
    """Namespace of the engines and pickers."""
    project: pulumi.Input[str]
    """Project that stores the metrics."""
    title: str
    """Prefix of each policy's name, such as the environment's name."""
    backends: NotRequired[bool]
    """Whether `ModelBackends` named `relay` are in the namespace. Default: false."""
    body_router: NotRequired[str]
    """Name of the body router of an `InferenceGateway` in the namespace. Default: none."""
    batches: NotRequired[bool]
    """Whether a `BatchService` is in the namespace. Default: false."""
    clients: NotRequired[bool]
    """Whether a `ClientGate` named `client-gate` is in the namespace. Default: false."""
    cost_limit_usd_per_hour: NotRequired[CostLimit]
    """Hourly list price of all replicas combined above which an alert fires. Default: no such
    alert."""
    front: NotRequired[bool]
    """Whether a `GlobalFront` is before the gateways. Default: false."""
    guards: NotRequired[bool]
    """Whether that gate calls guards (`NemoGuardrails`). Default: false."""
    fallbacks: NotRequired[bool]
    """Whether a pool has a `PoolFallback`. Default: false."""
    health_path: NotRequired[str]
    """Path that the uptime check requests, which must answer 200 without a credential. Default:
    `/healthz`, which an `InferenceGateway` answers."""
    hostname: NotRequired[str]
    """Name of an external HTTPS endpoint, for an uptime check every minute and a certificate expiry
    alert. Default: neither."""
    kafka_streams: NotRequired[list[str]]
    """Names of the streams (`StreamWorkerArgs.stream_name`) whose messages come from Kafka.
    Default: none."""
    personal_images: NotRequired[str]
    """Name of the service for personalized images (`PersonalFrontArgs.service_name`). Default:
    none."""
    personal_train_seconds: NotRequired[TrainSeconds]
    """Maximum time of its training jobs (`PersonalWorkerArgs.train_seconds`); an alert fires at
    half of it. Default: 14400."""
    has_next_picker: NotRequired[bool]
    """Whether each model has a second picker, `JOB-next-picker`. Default: false."""
    picker: NotRequired[PickerLineName]
    """Line of the pickers, whose metrics are read. Default: `gie`."""
    queue_clusters: NotRequired[list[str]]
    """Clusters with job queues (`QueueOperator` with `metrics_namespace`). Default: none."""
    queue_limit: NotRequired[QueueLimit]
    """Waiting requests per replica for 5 minutes above which an alert fires. Default: 20."""
    port: NotRequired[Port]
    """HTTPS port of the endpoint. Default: 443."""
    receivers: NotRequired[list[ReceiverArgs]]
    """Notification channels. Default: none; incidents appear only in the console."""
    subscriptions: NotRequired[list[str]]
    """Pub/Sub subscriptions that models answer; `NAME-dead-letters` keeps the dead letters of each.
    Default: none."""
    runbooks_url: NotRequired[str]
    """Base URL of the runbooks: each alert links to `URL/NAME.md`. Default: no link."""


class Alerts(pulumi.ComponentResource):
    """One alert policy per alert, across all models and clusters of a project.

    Cloud Monitoring evaluates the PromQL, not the clusters, so an alert outlives the cluster that
    it is about. Metrics need not exist yet, since policies are created before the first replica
    serves.
    """

    channels: pulumi.Output[list[str]]
    """Resource names of the notification channels."""
    policies: pulumi.Output[list[str]]
    """Names of the alerts, such as `NoReadyReplica`."""

    def __init__(
        self, name: str, args: AlertsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:Alerts", name, {}, opts)
        args = checked(AlertsArgs, args)
        scope = scope_of(args["models"], args["namespace"], args)
        receivers = args.get("receivers", [])
        keep(_problems(receivers))
        channels = {
            receiver["name"]: self._build_channel(name, args, receiver) for receiver in receivers
        }
        found = alerts(scope, Dialect.MANAGED)
        if "hostname" in scope.says:
            self._build_uptime(name, args, str(scope.hostname))
        for alert in found:
            notified = [
                channels[receiver["name"]].id
                for receiver in receivers
                if is_notified(receiver.get("severity", Severity.WARNING), Severity(alert.severity))
            ]
            self._build_policy(name, args, alert, notified)
        self.channels = pulumi.Output.all(*[made.id for made in channels.values()]).apply(_strings)
        self.policies = pulumi.Output.from_input([alert.name for alert in found])
        self.register_outputs({"channels": self.channels, "policies": self.policies})

    def _build_channel(
        self, name: str, args: AlertsArgs, receiver: ReceiverArgs
    ) -> monitoring.NotificationChannel:
        kind = KINDS[receiver["kind"]][0]
        return monitoring.NotificationChannel(
            f"{name}-{receiver['name']}",
            display_name=f"{args['title']}: {receiver['name']}",
            labels=_labels(receiver),
            project=args["project"],
            sensitive_labels=_sensitive(receiver),
            type=kind,
            user_labels={"managed-by": MANAGED_BY},
            opts=under(self),
        )

    def _build_uptime(self, name: str, args: AlertsArgs, hostname: str) -> None:
        monitoring.UptimeCheckConfig(
            f"{name}-endpoint",
            display_name=f"{args['title']}: {hostname}",
            http_check={
                "path": args.get("health_path", HEALTH_PATH),
                "port": args.get("port", 443),
                "use_ssl": True,
                "validate_ssl": True,
            },
            monitored_resource={
                "labels": {"host": hostname, "project_id": args["project"]},
                "type": "uptime_url",
            },
            period=_UPTIME_PERIOD,
            project=args["project"],
            timeout=_UPTIME_TIMEOUT,
            opts=under(self),
        )

    def _build_policy(
        self, name: str, args: AlertsArgs, alert: Alert, notified: list[pulumi.Output[str]]
    ) -> None:
        was = None if alert.was is None else f"{name}-{runbook_name(alert.was)}"
        monitoring.AlertPolicy(
            f"{name}-{alert.runbook}",
            alert_strategy={"auto_close": "86400s"},
            combiner="OR",
            conditions=[
                {
                    "condition_prometheus_query_language": {
                        "alert_rule": alert.name,
                        "disable_metric_validation": True,
                        "duration": f"{alert.lasting_seconds}s",
                        "evaluation_interval": "60s",
                        "labels": {"severity": alert.severity},
                        "query": alert.expr,
                        "rule_group": "gke-inference",
                    },
                    "display_name": alert.name,
                }
            ],
            display_name=f"{args['title']}: {alert.name}",
            documentation=_documentation(alert, args.get("runbooks_url")),
            notification_channels=notified,
            project=args["project"],
            severity=alert.severity.upper(),
            user_labels={"managed-by": MANAGED_BY},
            opts=under(self, was=was),
        )


def _labels(receiver: ReceiverArgs) -> dict[str, pulumi.Input[str]]:
    """Return the address of a channel. That of a webhook contains a token and stays secret."""
    if receiver["kind"] is ReceiverKind.WEBHOOK:
        return {"url": pulumi.Output.secret(receiver.get("secret", ""))}
    _, label = KINDS[receiver["kind"]]
    return {} if label is None else {label: receiver.get("address") or receiver.get("channel", "")}


def _sensitive(
    receiver: ReceiverArgs,
) -> monitoring.NotificationChannelSensitiveLabelsArgsDict | None:
    """Return the part of a channel that only Cloud Monitoring may read."""
    secret = pulumi.Output.secret(receiver.get("secret", ""))
    if receiver["kind"] is ReceiverKind.SLACK:
        return {"auth_token": secret}
    return {"service_key": secret} if receiver["kind"] is ReceiverKind.PAGERDUTY else None


def _documentation(alert: Alert, url: str | None) -> monitoring.AlertPolicyDocumentationArgsDict:
    text = f"{alert.summary}\n\nRunbook: {RUNBOOKS}/{alert.runbook}.md"
    made: monitoring.AlertPolicyDocumentationArgsDict = {
        "content": text,
        "mime_type": "text/markdown",
        "subject": f"{alert.name}: {alert.summary}"[:255],
    }
    if url is not None:
        link = f"{url.rstrip('/')}/{alert.runbook}.md"
        made["links"] = [{"display_name": "Runbook", "url": link}]
    return made


def is_notified(least: Severity, severity: Severity) -> bool:
    """Return whether a receiver with a minimum severity is notified of an alert's severity."""
    return list(Severity).index(severity) >= list(Severity).index(least)


def _problems(receivers: list[ReceiverArgs]) -> Iterator[InputError]:
    for at, receiver in enumerate(receivers):
        where, kind = join("receivers", at), receiver["kind"]
        address, channel = receiver.get("address"), receiver.get("channel")
        yield from check_receiver(where, kind, address=address, channel=channel)
        if kind in SECRET_KINDS and "secret" not in receiver:
            yield InputError(join(where, "secret"), f"is required when kind is {kind.value}")
    names = [receiver["name"] for receiver in receivers]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        yield InputError("receivers", "must have unique names", Bare(f"{', '.join(twice)} twice"))


def _strings(values: list[str]) -> list[str]:
    return [str(value) for value in values]
