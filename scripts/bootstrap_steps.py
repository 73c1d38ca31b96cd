"""The steps that prepare a project: each can look, say what it would do, and do it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from scripts.bootstrap_cloud import Cloud, CloudError, Json, NotFound, ServiceDisabled
from scripts.bootstrap_policy import Grant, merged, missing

_BATCH: Final = 20  # services one call of batchEnable takes
_POLICY_TRIES: Final = 4


class State(StrEnum):
    """What a step would do."""

    EXISTS = "exists"
    CREATE = "create"
    CHANGE = "change"


@dataclass(frozen=True)
class Finding:
    """What a step found, and what it would do about it."""

    state: State
    detail: str


@dataclass(frozen=True)
class Step:
    """One thing of a project: `look` never changes anything, `act` makes it as it should be."""

    subject: str
    look: Callable[[], Finding]
    act: Callable[[], None]


@dataclass(frozen=True)
class Resource:
    """A resource of a REST API that is there or is made.

    `wanted` holds the fields that must have a value; a resource that has others is patched.
    """

    subject: str
    host: str
    path: str
    collection: str
    id_param: str
    body: Json
    wanted: Json = field(default_factory=dict[str, Any])
    undelete: bool = False

    def step(self, cloud: Cloud) -> Step:
        """Return the step that makes the resource."""
        return Step(self.subject, lambda: self._look(cloud), lambda: self._act(cloud))

    def _look(self, cloud: Cloud) -> Finding:
        try:
            found = cloud.get(f"{self.host}/v1/{self.path}")
        except (NotFound, ServiceDisabled):
            return Finding(State.CREATE, self.path)
        if found.get("state") == "DELETED":
            return Finding(State.CHANGE, f"{self.path}: restore, it was deleted")
        wrong = sorted(key for key, value in self.wanted.items() if found.get(key) != value)
        if wrong:
            return Finding(State.CHANGE, f"{self.path}: set {', '.join(wrong)}")
        return Finding(State.EXISTS, self.path)

    def _act(self, cloud: Cloud) -> None:
        try:
            found = cloud.get(f"{self.host}/v1/{self.path}")
        except (NotFound, ServiceDisabled):
            made = cloud.post(f"{self.host}/v1/{self.collection}", self.body, **self._id())
            self._wait(cloud, made)
            return
        if found.get("state") == "DELETED" and self.undelete:
            self._wait(cloud, cloud.post(f"{self.host}/v1/{self.path}:undelete", {}))
            found = cloud.get(f"{self.host}/v1/{self.path}")
        wrong = {key: value for key, value in self.wanted.items() if found.get(key) != value}
        if wrong:
            url = f"{self.host}/v1/{self.path}"
            self._wait(cloud, cloud.patch(url, wrong, updateMask=",".join(sorted(wrong))))

    def _id(self) -> dict[str, str]:
        return {self.id_param: self.path.rsplit("/", 1)[1]} if self.id_param else {}

    def _wait(self, cloud: Cloud, answer: Json) -> None:
        if "/operations/" in answer.get("name", ""):
            cloud.wait(self.host, answer)


def services_step(cloud: Cloud, wanted: tuple[str, ...]) -> Step:
    """Return the step that switches APIs on."""
    host = "serviceusage.googleapis.com"
    url = f"{host}/v1/projects/{cloud.project}/services"

    def off() -> list[str]:
        on: set[str] = set()
        page = ""
        while True:
            token = {"pageToken": page} if page else {}
            answer = cloud.get(url, filter="state:ENABLED", pageSize="200", **token)
            on |= {service["config"]["name"] for service in answer.get("services", [])}
            page = answer.get("nextPageToken", "")
            if not page:
                return [name for name in wanted if name not in on]

    def look() -> Finding:
        absent = off()
        if absent:
            names = ", ".join(name.removesuffix(".googleapis.com") for name in absent)
            return Finding(State.CHANGE, f"enable {len(absent)} of {len(wanted)}: {names}")
        return Finding(State.EXISTS, f"all {len(wanted)} are enabled")

    def act() -> None:
        absent = off()
        for start in range(0, len(absent), _BATCH):
            body = {"serviceIds": absent[start : start + _BATCH]}
            cloud.wait(host, cloud.post(f"{url}:batchEnable", body))

    return Step("APIs", look, act)


def grants_step(cloud: Cloud, subject: str, url: str, grants: tuple[Grant, ...]) -> Step:
    """Return the step that adds roles to the policy of a resource, and takes none away.

    `url` is the resource; `:getIamPolicy` and `:setIamPolicy` are appended.
    """

    def policy() -> Json:
        if url.startswith("cloudkms."):  # the one of these APIs that reads a policy with GET
            return cloud.get(f"{url}:getIamPolicy", **{"options.requestedPolicyVersion": "3"})
        return cloud.query(f"{url}:getIamPolicy", {"options": {"requestedPolicyVersion": 3}})

    def look() -> Finding:
        try:
            absent = missing(policy(), grants)
        except (NotFound, ServiceDisabled):
            absent = list(grants)
        if absent:
            roles = ", ".join(sorted({grant.role.removeprefix("roles/") for grant in absent}))
            return Finding(State.CHANGE, f"grant {roles}")
        return Finding(State.EXISTS, f"{len(grants)} roles")

    def act() -> None:
        for attempt in range(_POLICY_TRIES):
            try:
                cloud.post(f"{url}:setIamPolicy", {"policy": merged(policy(), grants)})
            except CloudError as error:
                # Somebody else changed the policy between reading and writing.
                if "409" not in str(error) or attempt == _POLICY_TRIES - 1:
                    raise
                continue
            return

    return Step(subject, look, act)


def bucket_step(storage: Any, project: str, bucket: str, location: str) -> Step:
    """Return the step that makes the bucket of the Pulumi state.

    Args:
        storage: A `google.cloud.storage.Client`.
        project: Project of the bucket.
        bucket: Global name of the bucket.
        location: Region of the bucket.
    """

    def settings(found: Any) -> Mapping[str, bool]:
        iam: Any = found.iam_configuration
        return {
            "versions": bool(found.versioning_enabled),
            "uniform access": bool(iam.uniform_bucket_level_access_enabled),
            "no public access": iam.public_access_prevention == "enforced",
        }

    def look() -> Finding:
        found: Any = storage.lookup_bucket(bucket)
        if found is None:
            return Finding(State.CREATE, f"gs://{bucket} in {location}, with versions")
        absent = [name for name, is_set in settings(found).items() if not is_set]
        if absent:
            return Finding(State.CHANGE, f"gs://{bucket}: set {', '.join(absent)}")
        return Finding(State.EXISTS, f"gs://{bucket}")

    def act() -> None:
        found: Any = storage.lookup_bucket(bucket)
        target: Any = found if found is not None else storage.bucket(bucket)
        target.versioning_enabled = True
        target.iam_configuration.uniform_bucket_level_access_enabled = True
        target.iam_configuration.public_access_prevention = "enforced"
        if found is None:
            storage.create_bucket(target, project=project, location=location)
        else:
            target.patch()

    return Step("state bucket", look, act)
