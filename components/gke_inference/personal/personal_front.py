"""The cloud's part of personalized images: bucket, messages, and the service on Cloud Run."""

import json
from typing import Annotated, Any, NotRequired, TypedDict

import pulumi
from pulumi_gcp import cloudrunv2, pubsub, serviceaccount, storage

from gke_inference.base.checked import checked, keep
from gke_inference.base.inputs import name_of, under, user_labels
from gke_inference.base.run_services import grant_callers
from gke_inference.catalogue.names import service_account_email
from gke_inference.catalogue.versions import image
from gke_inference.cluster.workload_identity import ACCESS
from gke_inference.settings.fields import Hostname
from gke_inference.storage.classes import step_rules
from gke_inference.storage.expiring_bucket import expiring_bucket
from gke_inference.storage.rules import check_classes, class_steps
from gke_inference.storage.settings import Age, ColderAges
from gke_inference.streams.stream_topics import StreamTopics

from .rules import check_callers
from .settings import (
    ENTRIES,
    RETENTION_DAYS,
    SET_IMAGES,
    SET_PHOTOS,
    USER_SETS,
    RetentionDays,
    SetImages,
    SetPhotos,
    UserSets,
)

_SIGNER = "roles/iam.serviceAccountTokenCreator"
_PUBLISHER = "roles/pubsub.publisher"
_MOST_INSTANCES = 10
_EXPIRING = ["erasures/", "users/"]
"""Prefixes of objects that expire. The mark of a deletion stays until the deletion is complete."""
_LARGE = {
    "matches_prefixes": ["users/"],
    "matches_suffixes": [".jpg", ".png", ".safetensors", ".webp"],
}
"""Objects that move to colder classes: photos, images and adapters. States stay, because each
write of theirs would be billed as an early deletion."""


class PersonalFrontArgs(TypedDict):
    """Inputs of `PersonalFront`."""

    account_id: str
    """ID of the service's own service account."""
    bucket_name: str
    """Name of the bucket for all data of users, globally unique."""
    callback_hosts: Annotated[list[Hostname], ENTRIES]
    """Hosts that callbacks may go to."""
    callers: Annotated[list[str], ENTRIES]
    """IAM members that may call the service: the backend of the app, which has authenticated its
    user."""
    project: str
    """Project of all resources."""
    project_number: str
    """Number of that project."""
    region: str
    """Region of the bucket and the service."""
    service_name: str
    """Name of the service, and prefix of topics and subscriptions."""
    worker: pulumi.Input[str]
    """IAM member of the workers, which read the subscriptions."""
    archive_after_days: NotRequired[Age]
    """Age at which photos, images and adapters move to Archive storage. Default: never."""
    coldline_after_days: NotRequired[Age]
    """Age at which they move to Coldline storage. Default: never."""
    force_destroy: NotRequired[bool]
    """Whether to delete all objects with the bucket. Default: false."""
    image: NotRequired[str]
    """Image of the service, which Cloud Run can pull. Default: that of the lock."""
    kms_key: NotRequired[pulumi.Input[str]]
    """Cloud KMS key for new objects; the storage service agent must be allowed to use it."""
    labels: NotRequired[dict[str, str]]
    """Additional labels."""
    max_images: NotRequired[SetImages]
    """Maximum number of images generated for a set. Default: 8."""
    max_photos: NotRequired[SetPhotos]
    """Maximum number of photos of a set (`pictures` in the API). Default: 20."""
    max_open_sets: NotRequired[UserSets]
    """Maximum number of unfinished sets of a user. Default: 4."""
    nearline_after_days: NotRequired[Age]
    """Age at which they move to Nearline storage. Default: never."""
    retention_days: NotRequired[RetentionDays]
    """Days after which an object is deleted. Default: 30."""


class PersonalFront(pulumi.ComponentResource):
    """Uploads, requests and results of users, for one backend that calls it.

    The service signs its URLs by `signBlob` as its own service account, which is the only grant
    that account has on itself: there is no key. Deleted objects cannot be restored.
    """

    bucket_name: pulumi.Output[str]
    """Global bucket name, without the `gs://` scheme."""
    erasures_subscription: pulumi.Output[str]
    """Subscription of the workers for deletions, `projects/P/subscriptions/S`."""
    subscription: pulumi.Output[str]
    """Subscription of the workers for sets, `projects/P/subscriptions/S`."""
    url: pulumi.Output[str]
    """URL of the service."""

    def __init__(
        self, name: str, args: PersonalFrontArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:PersonalFront", name, {}, opts)
        args = self._args = checked(PersonalFrontArgs, args)
        keep(check_callers("callers", args["callers"]))
        self._labels = user_labels(args, "personal")
        bucket = self._build_bucket(name)
        sets = self._build_topics(name, args["service_name"])
        # a deletion behind sets in training would wait for hours
        erasures = self._build_topics(f"{name}-erasures", f"{args['service_name']}-erasures")
        account = serviceaccount.Account(
            name,
            account_id=name_of(args, "account_id", "service_account"),
            display_name="Signs uploads of personalized images",
            project=args["project"],
            opts=under(self),
        )
        email = service_account_email(args["account_id"], args["project"])
        granted = self._grant(name, email, under(self, depends_on=[account]), bucket, sets)
        granted.append(
            self._let_publish(
                f"{name}-erasures", email, erasures, under(self, depends_on=[account])
            )
        )
        settings = pulumi.Output.all(bucket.name, sets.topic, erasures.topic).apply(
            lambda found: json.dumps(
                {
                    "bucket": found[0],
                    "callback_hosts": args["callback_hosts"],
                    "erasures_topic": found[2],
                    "max_images": args.get("max_images", SET_IMAGES),
                    "max_photos": args.get("max_photos", SET_PHOTOS),
                    "max_open_sets": args.get("max_open_sets", USER_SETS),
                    "signer": email,
                    "topic": found[1],
                },
                sort_keys=True,
            )
        )
        service = self._build_service(name, email, settings, granted)
        self.bucket_name = bucket.name
        self.erasures_subscription = erasures.subscription
        self.subscription = sets.subscription
        self.url = service.uri
        self.register_outputs(
            {
                "bucketName": self.bucket_name,
                "erasuresSubscription": self.erasures_subscription,
                "subscription": self.subscription,
                "url": self.url,
            }
        )

    def _build_topics(self, name: str, physical: str) -> StreamTopics:
        args = self._args
        return StreamTopics(
            name,
            {
                "labels": args.get("labels", {}),
                "project": args["project"],
                "project_number": args["project_number"],
                "stream_name": physical,
                "worker": args["worker"],
            },
            under(self),
        )

    def _build_bucket(self, name: str) -> storage.Bucket:
        args = self._args
        days = args.get("retention_days", RETENTION_DAYS)
        ages = ColderAges(
            nearline_after_days=args.get("nearline_after_days"),
            coldline_after_days=args.get("coldline_after_days"),
            archive_after_days=args.get("archive_after_days"),
        )
        keep(check_classes("", ages, "retention_days", days))
        return expiring_bucket(
            name,
            name_of(args, "bucket_name", "bucket"),
            force_destroy=args.get("force_destroy", False),
            kms_key=args.get("kms_key"),
            labels=self._labels,
            location=args["region"],
            opts=under(self),
            project=args["project"],
            rules=[
                *step_rules(class_steps(ages), _LARGE),
                {
                    "action": {"type": "Delete"},
                    "condition": {"age": days, "matches_prefixes": _EXPIRING},
                },
                {"action": {"type": "AbortIncompleteMultipartUpload"}, "condition": {"age": 1}},
            ],
        )

    def _grant(
        self,
        name: str,
        email: str,
        opts: pulumi.ResourceOptions,
        bucket: storage.Bucket,
        topics: StreamTopics,
    ) -> list[pulumi.Resource]:
        """Grant the service its bucket, its topic, and signatures in its own name."""
        member = f"serviceAccount:{email}"
        return [
            serviceaccount.IAMMember(
                f"{name}-signs",
                member=member,
                role=_SIGNER,
                service_account_id=f"projects/{self._args['project']}/serviceAccounts/{email}",
                opts=opts,
            ),
            storage.BucketIAMMember(
                f"{name}-bucket",
                bucket=bucket.name,
                member=member,
                role=ACCESS["write"],
                opts=opts,
            ),
            self._let_publish(name, email, topics, opts),
        ]

    def _let_publish(
        self, name: str, email: str, topics: StreamTopics, opts: pulumi.ResourceOptions
    ) -> pulumi.Resource:
        return pubsub.TopicIAMMember(
            f"{name}-publishes",
            member=f"serviceAccount:{email}",
            project=self._args["project"],
            role=_PUBLISHER,
            topic=topics.topic,
            opts=opts,
        )

    def _build_service(
        self,
        name: str,
        email: str,
        settings: pulumi.Output[str],
        granted: list[pulumi.Resource],
    ) -> cloudrunv2.Service:
        args = self._args
        container: dict[str, Any] = {
            "args": ["front", "-"],
            "envs": [{"name": "SETTINGS", "value": settings}],
            "image": args.get("image") or image("personal").reference,
            "ports": {"container_port": 8080},
            "resources": {"limits": {"cpu": "1", "memory": "512Mi"}},
            "startup_probe": {"http_get": {"path": "/healthz"}},
        }
        template: Any = {
            "containers": [container],
            "scaling": {"max_instance_count": _MOST_INSTANCES},
            "service_account": email,
            "timeout": "60s",
        }
        service = cloudrunv2.Service(
            f"{name}-service",
            deletion_protection=False,  # it has no data
            ingress="INGRESS_TRAFFIC_ALL",
            labels=self._labels,
            location=args["region"],
            name=args["service_name"],
            project=args["project"],
            template=template,
            opts=under(self, depends_on=granted),
        )
        grant_callers(
            name,
            service,
            args["callers"],
            location=args["region"],
            project=args["project"],
            parent=self,
        )
        return service
