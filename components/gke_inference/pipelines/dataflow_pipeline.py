"""A streaming job on Dataflow: its topics, identity, bucket, template and workers."""

import hashlib
import json
import re
from typing import Any, Final, NotRequired, TypedDict

import pulumi
from pulumi_gcp import (
    artifactregistry,
    dataflow,
    projects,
    pubsub,
    secretmanager,
    serviceaccount,
    storage,
)

from gke_inference.base.checked import checked, keep
from gke_inference.base.inputs import name_of, under, user_labels
from gke_inference.base.propagation import until_effective
from gke_inference.catalogue.names import service_account_email
from gke_inference.settings.fields import MachineType, SecretId, TopicName
from gke_inference.storage.expiring_bucket import expiring_bucket

from .rules import check_features, check_value, check_workers
from .settings import (
    BATCH,
    INPUT,
    LATENESS_SECONDS,
    MACHINE_TYPE,
    MAX_WORKERS,
    MIN_WORKERS,
    OUTPUT,
    RETRIES,
    THRESHOLD,
    TOTALS_SECONDS,
    WINDOW_SECONDS,
    BatchSize,
    FieldName,
    LatenessSeconds,
    PipelineWorkers,
    Retries,
    Threshold,
    TotalsSeconds,
    WindowSeconds,
)

_ACK_DEADLINE_SECONDS: Final = 60
"""Dataflow extends it while a message is processed."""
_RETENTION: Final = "604800s"
_NEVER: Final = ""
"""TTL of an unused subscription. Without it, the subscription expires after 31 days."""
_TEMPORARY_DAYS: Final = 14
_REPOSITORY: Final = re.compile(
    r"(?P<location>[-a-z0-9]+)-docker\.pkg\.dev/(?P<project>[^/]+)/(?P<repository>[^/]+)/"
)
_TRACKING: Final = ("pubsub.subscriptions.create", "pubsub.subscriptions.delete")
"""What Dataflow needs in the project for the subscription by which it follows the times of events
(`tracking_subscription` of the Dataflow API). That it acts as the worker is assumed."""


class FieldsArgs(TypedDict):
    """What the pipeline reads in an event, a JSON object with `id`."""

    features: list[FieldName]
    """Features of the model, in its order: fields with numbers, or `window_count` and
    `window_sum`."""
    group: FieldName
    """Field that totals are kept by."""
    key: FieldName
    """Field whose values have a state each."""
    value: FieldName
    """Field with the number that is summed."""


class DataflowPipelineArgs(TypedDict):
    """Inputs of `DataflowPipeline`."""

    account_id: str
    """ID of the workers' service account."""
    bucket_name: str
    """Name of the bucket for the template and temporary files, globally unique."""
    endpoint: pulumi.Input[str]
    """URL of the gateway, without a path."""
    fields: FieldsArgs
    """Fields of an event."""
    image: str
    """Image of the pipeline, which launches the job and runs in its workers. Artifact Registry must
    have it."""
    model: str
    """Predictive model that scores the events."""
    pipeline_name: str
    """Name of the job, the subscription and the topic of events, and prefix of other names."""
    project: str
    """Project of all resources."""
    region: str
    """Region of the job."""
    subnetwork: pulumi.Input[str]
    """Subnet of the workers with Private Google Access, `regions/R/subnetworks/S`, or its URL."""
    batch: NotRequired[BatchSize]
    """Most events in a request. Default: 32."""
    force_destroy: NotRequired[bool]
    """Whether to delete all objects with the bucket. Default: false."""
    input: NotRequired[FieldName]
    """Tensor of the model for the features. Default: features."""
    key_secret: NotRequired[SecretId]
    """Secret of Secret Manager, in the same project, with the key of a team. Default: none."""
    kms_key: NotRequired[pulumi.Input[str]]
    """Cloud KMS key for new objects; the storage service agent must be allowed to use it."""
    labels: NotRequired[dict[str, str]]
    """Additional labels."""
    lateness_seconds: NotRequired[LatenessSeconds]
    """How late an event may be. Default: 3600."""
    machine_type: NotRequired[MachineType]
    """Machine type of the workers. Default: n1-standard-2."""
    max_workers: NotRequired[PipelineWorkers]
    """Maximum number of workers. Default: 3."""
    min_workers: NotRequired[PipelineWorkers]
    """Number of workers at the start. Default: 1."""
    output: NotRequired[FieldName]
    """Tensor of the model with the scores. Default: probability."""
    retries: NotRequired[Retries]
    """Attempts after the first at a request that can succeed later. Default: 5."""
    threshold: NotRequired[Threshold]
    """Score from which on an event is flagged. Default: 0.5."""
    topic: NotRequired[TopicName]
    """Existing topic of events, `projects/P/topics/T`. Default: a topic is created."""
    totals_seconds: NotRequired[TotalsSeconds]
    """Length of the windows of totals. Default: 60."""
    window_seconds: NotRequired[WindowSeconds]
    """Length of the window of `window_count` and `window_sum`. Default: 86400."""


class DataflowPipeline(pulumi.ComponentResource):
    """A Flex Template job that scores the events of a topic, with a state for each key.

    Workers have no external addresses and an account of their own, with permissions on these
    topics, this subscription, this bucket, the repository of the image and the key. The
    subscription has no dead-letter policy, which Dataflow does not support: the pipeline publishes
    dead letters itself. A changed setting or image updates the running job, which keeps its state;
    destroying the job drains it.
    """

    dead_letters: pulumi.Output[str]
    """Topic of events without a score, `projects/P/topics/T`."""
    job_id: pulumi.Output[str]
    """ID of the job."""
    scores: pulumi.Output[str]
    """Topic of scores."""
    topic: pulumi.Output[str]
    """Topic of events."""
    totals: pulumi.Output[str]
    """Topic of totals."""

    def __init__(
        self, name: str, args: DataflowPipelineArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:DataflowPipeline", name, {}, opts)
        args = self._args = checked(DataflowPipelineArgs, args)
        least, most = args.get("min_workers", MIN_WORKERS), args.get("max_workers", MAX_WORKERS)
        keep(check_features("fields", args["fields"]["features"]))
        keep(check_value("fields", args["fields"]["value"]))
        keep(check_workers("min_workers", least, most))
        self._name, self._labels = name, user_labels(args, "pipeline")
        physical = name_of(args, "pipeline_name", "compute")
        given = args.get("topic")
        topic = pulumi.Output.from_input(given) if given else self._topic("events", physical).id
        read = self._subscription("events", physical, topic)
        outputs = {
            role: self._topic(role, f"{physical}-{role}")
            for role in ("scores", "totals", "dead-letters")
        }
        for role, each in outputs.items():
            self._subscription(role, f"{physical}-{role}", each.id)
        bucket = self._build_bucket()
        email, granted = self._build_account(topic, read, outputs, bucket)
        parameters = pulumi.Output.all(
            args["endpoint"], read.id, *(each.id for each in outputs.values())
        ).apply(lambda found: self._settings(*found))
        template = self._build_template(bucket)
        job = dataflow.FlexTemplateJob(
            name,
            autoscaling_algorithm="THROUGHPUT_BASED",
            container_spec_gcs_path=pulumi.Output.concat("gs://", bucket.name, "/", template.name),
            enable_streaming_engine=True,
            ip_configuration="WORKER_IP_PRIVATE",
            labels=self._labels,
            machine_type=args.get("machine_type", MACHINE_TYPE),
            max_workers=most,
            name=physical,
            num_workers=least,
            on_delete="drain",
            parameters={"settings": parameters},
            project=args["project"],
            region=args["region"],
            sdk_container_image=args["image"],
            service_account_email=email,
            staging_location=pulumi.Output.concat("gs://", bucket.name, "/staging"),
            subnetwork=args["subnetwork"],
            temp_location=pulumi.Output.concat("gs://", bucket.name, "/temporary"),
            opts=under(self, depends_on=[template, *granted], hooks=until_effective(self, name)),
        )
        self.dead_letters = outputs["dead-letters"].id
        self.job_id = job.job_id
        self.scores = outputs["scores"].id
        self.topic = topic
        self.totals = outputs["totals"].id
        self.register_outputs(
            {
                "deadLetters": self.dead_letters,
                "jobId": self.job_id,
                "scores": self.scores,
                "topic": self.topic,
                "totals": self.totals,
            }
        )

    def _settings(
        self, endpoint: str, subscription: str, scores: str, totals: str, dead_letters: str
    ) -> str:
        """Return the settings that the pipeline reads (workloads/pipelines/settings.py)."""
        args = self._args
        found: dict[str, Any] = {
            **args["fields"],
            "batch": args.get("batch", BATCH),
            "dead_letters": dead_letters,
            "endpoint": endpoint,
            "input": args.get("input", INPUT),
            "lateness_seconds": args.get("lateness_seconds", LATENESS_SECONDS),
            "model": args["model"],
            "output": args.get("output", OUTPUT),
            "pipeline": args["pipeline_name"],
            "retries": args.get("retries", RETRIES),
            "scores": scores,
            "subscription": subscription,
            "threshold": args.get("threshold", THRESHOLD),
            "totals": totals,
            "totals_seconds": args.get("totals_seconds", TOTALS_SECONDS),
            "window_seconds": args.get("window_seconds", WINDOW_SECONDS),
        }
        if secret := args.get("key_secret"):
            found["key_secret"] = f"projects/{args['project']}/secrets/{secret}/versions/latest"
        return json.dumps(found, sort_keys=True)

    def _topic(self, role: str, physical: str) -> pubsub.Topic:
        return pubsub.Topic(
            f"{self._name}-{role}-topic",
            labels=self._labels,
            name=physical,
            project=self._args["project"],
            opts=under(self),
        )

    def _subscription(
        self, role: str, physical: str, topic: pulumi.Input[str]
    ) -> pubsub.Subscription:
        return pubsub.Subscription(
            f"{self._name}-{role}-subscription",
            ack_deadline_seconds=_ACK_DEADLINE_SECONDS,
            expiration_policy={"ttl": _NEVER},
            labels=self._labels,
            message_retention_duration=_RETENTION,
            name=physical,
            project=self._args["project"],
            topic=topic,
            opts=under(self),
        )

    def _build_bucket(self) -> storage.Bucket:
        args, child, project = self._args, under(self), self._args["project"]
        return expiring_bucket(
            self._name,
            name_of(args, "bucket_name", "bucket"),
            force_destroy=args.get("force_destroy", False),
            kms_key=args.get("kms_key"),
            labels=self._labels,
            location=args["region"],
            opts=child,
            project=project,
            rules=[
                {
                    "action": {"type": "Delete"},
                    "condition": {"age": _TEMPORARY_DAYS, "matches_prefixes": ["temporary/"]},
                },
                {"action": {"type": "AbortIncompleteMultipartUpload"}, "condition": {"age": 1}},
            ],
        )

    def _build_account(
        self,
        topic: pulumi.Input[str],
        read: pubsub.Subscription,
        outputs: dict[str, pubsub.Topic],
        bucket: storage.Bucket,
    ) -> tuple[str, list[pulumi.Resource]]:
        """Build the workers' account, and return its email and its permissions."""
        args, name, project = self._args, self._name, self._args["project"]
        account = serviceaccount.Account(
            name,
            account_id=name_of(args, "account_id", "service_account"),
            display_name=f"Workers of {args['pipeline_name']}",
            project=project,
            opts=under(self),
        )
        email = service_account_email(args["account_id"], project)
        member, behind = f"serviceAccount:{email}", under(self, depends_on=[account])
        tracking = projects.IAMCustomRole(
            f"{name}-tracking",
            permissions=list(_TRACKING),
            project=project,
            role_id=re.sub(r"\W", "_", f"{args['pipeline_name']}_tracking"),
            title=f"Tracking subscription of {args['pipeline_name']}",
            opts=under(self),
        )
        granted: list[pulumi.Resource] = [
            projects.IAMMember(
                f"{name}-worker",
                member=member,
                project=project,
                role="roles/dataflow.worker",
                opts=behind,
            ),
            projects.IAMMember(
                f"{name}-tracks", member=member, project=project, role=tracking.name, opts=behind
            ),
            storage.BucketIAMMember(
                f"{name}-bucket",
                bucket=bucket.name,
                member=member,
                role="roles/storage.objectAdmin",
                opts=behind,
            ),
            # also to attach the subscription that follows the times of events
            pubsub.TopicIAMMember(
                f"{name}-attaches",
                member=member,
                project=project,
                role="roles/pubsub.subscriber",
                topic=topic,
                opts=behind,
            ),
        ]
        granted += [
            pubsub.SubscriptionIAMMember(
                f"{name}-{verb}",
                member=member,
                project=project,
                role=role,
                subscription=read.name,
                opts=behind,
            )
            # Dataflow also reads the subscription's settings
            for verb, role in (
                ("reads", "roles/pubsub.subscriber"),
                ("sees", "roles/pubsub.viewer"),
            )
        ]
        granted += [
            pubsub.TopicIAMMember(
                f"{name}-{role}",
                member=member,
                project=project,
                role="roles/pubsub.publisher",
                topic=each.name,
                opts=behind,
            )
            for role, each in outputs.items()
        ]
        if found := _REPOSITORY.match(args["image"]):
            granted.append(
                artifactregistry.RepositoryIamMember(
                    f"{name}-pulls",
                    location=found["location"],
                    member=member,
                    project=found["project"],
                    repository=found["repository"],
                    role="roles/artifactregistry.reader",
                    opts=behind,
                )
            )
        if secret := args.get("key_secret"):
            granted.append(
                secretmanager.SecretIamMember(
                    f"{name}-key",
                    member=member,
                    project=project,
                    role="roles/secretmanager.secretAccessor",
                    secret_id=f"projects/{project}/secrets/{secret}",
                    opts=behind,
                )
            )
        return email, granted

    def _build_template(self, bucket: storage.Bucket) -> storage.BucketObject:
        """Build the template: the image and its one parameter.

        Its name has a digest, because Dataflow updates a job only if a path or a value changes.
        """
        content = json.dumps(
            {
                "image": self._args["image"],
                "metadata": {
                    "name": self._args["pipeline_name"],
                    "parameters": [
                        {
                            "helpText": "Settings of the pipeline as a JSON object.",
                            "label": "Settings",
                            "name": "settings",
                        }
                    ],
                    "streaming": True,
                },
                "sdkInfo": {"language": "PYTHON"},
            },
            sort_keys=True,
        )
        digest = hashlib.sha256(content.encode()).hexdigest()[:12]
        return storage.BucketObject(
            f"{self._name}-template",
            bucket=bucket.name,
            content=content,
            content_type="application/json",
            name=f"templates/{digest}.json",
            opts=under(self),
        )
