"""Types of text fields with their patterns, for every setting of a stack and of a component."""

from typing import Annotated, Final

from pydantic import Field

from gke_inference.settings import Word

_NAME: Final = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
_MODEL_NAME: Final = r"^[a-z0-9]([-._a-z0-9]*[a-z0-9])?$"
_VERSION: Final = r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$"
_REGION: Final = r"^[a-z]+-[a-z]+[0-9]+$"
_ZONE: Final = r"^[a-z]+-[a-z]+[0-9]+-(ai[0-9]+)?[a-z]$"
_PROJECT: Final = r"^[a-z][-a-z0-9]{4,28}[a-z0-9]$"
_CIDR: Final = r"^[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+/[0-9]+$"
_HOSTNAME: Final = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?\.)+[a-z]{2,}$"
_MACHINE_TYPE: Final = r"^[a-z][a-z0-9]*-[a-z0-9]+(-[a-z0-9]+)*$"
_TOPOLOGY: Final = r"^[0-9]+(x[0-9]+){1,2}$"
_WEIGHTS: Final = (
    r"^(gs://[a-z0-9][-._a-z0-9]{1,61}[a-z0-9]/)?[A-Za-z0-9][-._A-Za-z0-9]*(/[-._A-Za-z0-9]+)*/?"
    r"(@[a-z0-9][a-z0-9._-]{0,62})?$"
)
_FOLDER: Final = r"^[A-Za-z0-9][-_A-Za-z0-9]*(/[A-Za-z0-9][-_A-Za-z0-9]*)*$"
_KEY_NAME: Final = r"^projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+$"
_EMAIL: Final = r"^[^@\s]+@[^@\s]+\.[^@\s]+$"
_CHANNEL: Final = r"^#\S+$"
_HTTPS_URL: Final = r"^https://\S+$"
_WEB_URL: Final = r"^https?://[^\s?#@]+$"
_LOCATION: Final = r"^[a-z]+(-[a-z]+[0-9]+)?$"
_SERVICE: Final = r"^projects/[^/]+/locations/[^/]+/services/[^/]+$"
_CREDENTIAL: Final = r"^projects/[^/]+/secrets/[^/]+/versions/([1-9][0-9]*|latest)$"
_SECRET_ID: Final = r"^[A-Za-z0-9_-]{1,255}$"  # noqa: S105 - a pattern
_SECRET_NAME: Final = r"^projects/[^/]+/secrets/[A-Za-z0-9_-]{1,255}$"  # noqa: S105 - a pattern
_IMAGE_SIZE: Final = r"^[1-9][0-9]{1,3}x[1-9][0-9]{1,3}$"
_DIGEST: Final = r"^sha256:[0-9a-f]{64}$"
_BRANCH: Final = r"^[A-Za-z0-9][-._/A-Za-z0-9]*$"
_BILLING_ACCOUNT: Final = r"^[0-9A-F]{6}-[0-9A-F]{6}-[0-9A-F]{6}$"
_TOPIC: Final = r"^projects/[^/]+/topics/[^/]+$"
_GKE_VERSION: Final = r"^1\.[0-9]+(\.[0-9]+(-gke\.[0-9]+)?)?$"
_BUCKET: Final = r"^[a-z0-9][-._a-z0-9]{1,61}[a-z0-9]$"
_CLUSTER_PATH: Final = r"^projects/[^/]+/locations/[^/]+/clusters/[^/]+$"
_NETWORK_PATH: Final = r"^projects/[^/]+/global/networks/[^/]+$"
_REPOSITORY_PATH: Final = r"^projects/[^/]+/locations/[^/]+/repositories/[^/]+$"
_SUBNET_PATH: Final = r"^projects/[^/]+/regions/[^/]+/subnetworks/[^/]+$"
_NAMESPACE: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_REFERENCE: Final = r"^([\w.-]+/[\w.-]+/)?[\w.-]+$"
_OBJECT_NAME: Final = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
_TABLE: Final = r"^[a-z][-a-z0-9]{4,28}[a-z0-9]\.[A-Za-z0-9_]+\.[A-Za-z0-9_]+$"
_SOURCE: Final = r"^projects/[^/]+/locations/[^/]+/connections/[^/]+/repositories/[^/]+$"
_MOMENT: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"
_DATA: Final = r"^[A-Za-z0-9][-._A-Za-z0-9]*(/[-._A-Za-z0-9]+)*\.jsonl$"
_TASK: Final = r"^[A-Za-z0-9][-._A-Za-z0-9]*$"
_METRIC: Final = r"^[a-z0-9_]+,[-a-z0-9_]+$"
_CLOCK: Final = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"
_END: Final = r"^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$"
_TIME_ZONE: Final = r"^[A-Za-z][-+_A-Za-z0-9]*(/[A-Za-z][-+_A-Za-z0-9]*)*$"
AUDIENCE: Final = r"^/projects/[0-9]+/global/backendServices/[0-9]+$"

PATTERN_WORDS: Final = {
    AUDIENCE: "/projects/NUMBER/global/backendServices/ID",
    _NAME: "lowercase letters, digits and hyphens, starting with a letter and not ending with "
    "a hyphen",
    _MODEL_NAME: "lowercase letters, digits, dots, hyphens and underscores",
    _VERSION: "lowercase letters, digits, dots and hyphens",
    _REGION: "a region such as us-east5",
    _ZONE: "a zone such as us-east5-a",
    _PROJECT: "a project ID: 6 to 30 lowercase letters, digits and hyphens, starting with a letter",
    _CIDR: "a range such as 10.0.0.0/20",
    _HOSTNAME: "a host name such as models.example.com",
    _MACHINE_TYPE: "a machine type such as e2-standard-4",
    _TOPOLOGY: "a topology such as 2x2",
    _WEIGHTS: "a path in the platform's model bucket or gs://BUCKET/PATH, optionally with @VERSION",
    _EMAIL: "an address such as oncall@example.com",
    _CHANNEL: "a channel such as #oncall",
    _HTTPS_URL: "a URL that starts with https://",
    _WEB_URL: "an address such as https://llm.example.com/v1, without credentials or query",
    _LOCATION: "a location such as us-central1 or global",
    _SERVICE: "projects/PROJECT/locations/LOCATION/services/SERVICE",
    _FOLDER: "a folder such as live-adapters: letters, digits, hyphens, underscores and slashes",
    _CREDENTIAL: "projects/PROJECT/secrets/SECRET/versions/VERSION",
    _SECRET_ID: "the ID of a secret: letters, digits, hyphens and underscores",
    _SECRET_NAME: "projects/PROJECT/secrets/SECRET",
    _IMAGE_SIZE: "WIDTHxHEIGHT such as 1024x1024",
    _DIGEST: "a digest: sha256: and 64 hexadecimal digits",
    _BRANCH: "a branch such as main",
    _BILLING_ACCOUNT: "a billing account such as 012345-6789AB-CDEF01",
    _TOPIC: "projects/PROJECT/topics/TOPIC",
    _SOURCE: "projects/PROJECT/locations/LOCATION/connections/CONNECTION/repositories/REPOSITORY",
    _GKE_VERSION: "a version of GKE such as 1.36 or 1.36.4-gke.1391002",
    _BUCKET: "the name of a bucket, without gs://",
    _CLUSTER_PATH: "projects/PROJECT/locations/LOCATION/clusters/NAME",
    _NETWORK_PATH: "projects/PROJECT/global/networks/NAME",
    _REPOSITORY_PATH: "projects/PROJECT/locations/LOCATION/repositories/NAME",
    _SUBNET_PATH: "projects/PROJECT/regions/REGION/subnetworks/NAME",
    _NAMESPACE: "lowercase letters, digits and hyphens",
    _OBJECT_NAME: "lowercase letters, digits, hyphens and dots",
    _TABLE: "a table of BigQuery, PROJECT.DATASET.TABLE",
    _REFERENCE: "a stack such as platform-prod, or ORGANIZATION/PROJECT/STACK",
    _MOMENT: "a quoted time in UTC such as 2027-01-11T08:00:00Z",
    _DATA: "an object of the model bucket whose name ends with .jsonl",
    _TASK: "a task of lm-evaluation-harness such as gsm8k",
    _METRIC: "METRIC,FILTER such as exact_match,strict-match",
    _CLOCK: 'a quoted time of the day from "00:00" to "23:59"',
    _END: 'a quoted time of the day from "00:00" to "24:00"',
    _TIME_ZONE: "a name of the IANA time zone database such as Europe/Berlin",
    _KEY_NAME: "projects/PROJECT/locations/LOCATION/keyRings/RING/cryptoKeys/KEY",
}
"""What each pattern expects, worded for an error message."""

Name = Annotated[str, Field(pattern=_NAME, max_length=40)]
ShortName = Annotated[str, Field(pattern=_NAME, max_length=12)]
ImageName = Annotated[str, Field(pattern=_NAME, max_length=63)]
ModelName = Annotated[str, Field(pattern=_MODEL_NAME, max_length=40)]
Version = Annotated[str, Field(pattern=_VERSION, max_length=20)]
CloudRunService = Annotated[str, Field(pattern=_SERVICE)]
LocationName = Annotated[str, Field(pattern=_LOCATION)]
WebUrl = Annotated[str, Field(pattern=_WEB_URL, max_length=500)]
RegionName = Annotated[str, Field(pattern=_REGION)]
Zone = Annotated[str, Field(pattern=_ZONE)]
ProjectId = Annotated[str, Field(pattern=_PROJECT)]
Cidr = Annotated[str, Field(pattern=_CIDR)]
Hostname = Annotated[str, Field(pattern=_HOSTNAME, max_length=253)]
MachineType = Annotated[str, Field(pattern=_MACHINE_TYPE)]
Topology = Annotated[str, Field(pattern=_TOPOLOGY)]
Weights = Annotated[str, Field(pattern=_WEIGHTS)]
AdapterFolder = Annotated[str, Field(pattern=_FOLDER, max_length=100)]
KeyName = Annotated[str, Field(pattern=_KEY_NAME)]
BucketName = Annotated[str, Field(pattern=_BUCKET)]
ClusterPath = Annotated[str, Field(pattern=_CLUSTER_PATH)]
NetworkPath = Annotated[str, Field(pattern=_NETWORK_PATH)]
RangeName = Annotated[str, Field(pattern=_NAME, max_length=63)]
RepositoryPath = Annotated[str, Field(pattern=_REPOSITORY_PATH)]
SubnetPath = Annotated[str, Field(pattern=_SUBNET_PATH)]
StackReference = Annotated[str, Field(pattern=_REFERENCE, max_length=200)]
Namespace = Annotated[str, Field(pattern=_NAMESPACE, max_length=63)]
ObjectName = Annotated[str, Field(pattern=_OBJECT_NAME, max_length=253)]
TableName = Annotated[str, Field(pattern=_TABLE)]
SecretVersion = Annotated[str, Field(pattern=_CREDENTIAL)]
SecretId = Annotated[str, Field(pattern=_SECRET_ID)]
SecretName = Annotated[str, Field(pattern=_SECRET_NAME)]
ImageSize = Annotated[str, Field(pattern=_IMAGE_SIZE)]
Digest = Annotated[str, Field(pattern=_DIGEST)]
Branch = Annotated[str, Field(pattern=_BRANCH, max_length=100)]
SourceRepository = Annotated[str, Field(pattern=_SOURCE)]
Moment = Annotated[str, Field(pattern=_MOMENT)]
GkeVersion = Annotated[str, Field(pattern=_GKE_VERSION)]
BillingAccount = Annotated[str, Field(pattern=_BILLING_ACCOUNT)]
TopicName = Annotated[str, Field(pattern=_TOPIC)]
EmailAddress = Annotated[str, Field(pattern=_EMAIL)]
Channel = Annotated[str, Field(pattern=_CHANNEL)]
DataObject = Annotated[str, Field(pattern=_DATA, max_length=300)]
TaskName = Annotated[str, Field(pattern=_TASK, max_length=100)]
MetricName = Annotated[str, Field(pattern=_METRIC, max_length=100)]
HttpsUrl = Annotated[str, Field(pattern=_HTTPS_URL)]


class BootDisk(Word):
    """Boot disk types of nodes."""

    BALANCED = "pd-balanced"
    STANDARD = "pd-standard"
    SSD = "pd-ssd"
    HYPERDISK = "hyperdisk-balanced"


Audience = Annotated[str, Field(pattern=AUDIENCE)]
"""Audience of the tokens of people behind a backend service."""
Port = Annotated[int, Field(ge=1, le=65_535)]
ForwardedHops = Annotated[int, Field(ge=1, le=10)]
"""Position of the client's address in X-Forwarded-For, counted from the end."""
Context = Annotated[int, Field(ge=1, le=2**30)]
"""Context of a model in tokens, prompt and answer combined."""
DEFAULT_CONTEXT: Final = 131_072
"""Assumed context of a model that nobody describes, in tokens: that of many current models."""
UsdPerMillion = Annotated[float, Field(ge=0, le=1e6)]
"""US dollars per million tokens."""
MonthlyUsd = Annotated[float, Field(gt=0, le=1e9)]
"""Limit of the cost in a calendar month (UTC), in US dollars."""
DeadlineSeconds = Annotated[int, Field(ge=10, le=3600)]
"""Maximum time to answer one request of a batch or a stream."""
DEADLINE_SECONDS: Final = 600
WorkerRequests = Annotated[int, Field(ge=1, le=200)]
"""Maximum concurrent requests of a worker."""
WORKER_REQUESTS: Final = 16
ClockTime = Annotated[str, Field(pattern=_CLOCK)]
EndTime = Annotated[str, Field(pattern=_END)]
TimeZoneName = Annotated[str, Field(pattern=_TIME_ZONE, max_length=64)]
