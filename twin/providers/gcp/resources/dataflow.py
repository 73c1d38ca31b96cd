"""Dataflow: Google's checks for jobs of Flex Templates (rule dataflow.job)."""

import json
import re
from typing import Any, Final

from gke_inference.catalogue.machine_types import is_general
from twin.providers.gcp.resources.references import BUCKET, SUBNETWORK, Link
from twin.wire.property_values import CloudError, Json, as_object, last_segment
from twin.world.store import Store

JOB: Final = "gcp:dataflow/flexTemplateJob:FlexTemplateJob"
_OBJECT: Final = "gcp:storage/bucketObject:BucketObject"
_GRANT: Final = "gcp:projects/iAMMember:IAMMember"
_WORKER: Final = "roles/dataflow.worker"
_NAME: Final = re.compile(r"[a-z]([-a-z0-9]{0,1022}[a-z0-9])?")
_PATH: Final = re.compile(r"gs://([^/]+)/(.+)")
_MOST_WORKERS: Final = 1_000


def outputs(_values: Json, resource_id: str, _seed: str, _project: str) -> Json:
    """Return what Dataflow reports of a job: in the twin, all run."""
    return {"jobId": resource_id, "state": "JOB_STATE_RUNNING", "type": "JOB_TYPE_STREAMING"}


def check_new(values: Json, project: str, store: Store) -> None:
    """Reject a job with the name of another one in its region.

    Raises:
        CloudError: There is one.
    """
    for other in store.find(JOB):
        same = all(other.outputs.get(key) == values.get(key) for key in ("name", "region"))
        if same and other.project == project:
            message = f"The job {values['name']} already exists. Use a different job name."
            raise CloudError(409, message, "alreadyExists")


def check_job(values: Json, project: str, store: Store, found: list[Link]) -> None:
    """Reject a job that Dataflow would reject, or that would fail before it runs.

    Raises:
        CloudError: The first error.
    """
    name = str(values["name"])
    if not _NAME.fullmatch(name):
        raise _invalid("name", _NAME.pattern, name)
    _check_workers(values)
    for field in ("stagingLocation", "tempLocation"):
        _check_bucket(field, values.get(field), store)
    _check_template(values, store)
    machine = values.get("machineType")
    if machine is not None and not is_general(str(machine)):
        raise CloudError(400, f"Machine type {machine} does not exist.", "badRequest")
    _check_subnetwork(values, found)
    email = values.get("serviceAccountEmail")
    member = f"serviceAccount:{email}"
    granted = any(
        each.inputs.get("member") == member and each.inputs.get("role") == _WORKER
        for each in store.find(_GRANT)
        if each.project in (project, "")
    )
    if email is not None and not granted:
        message = f"The worker service account {email} does not have {_WORKER} on the project."
        raise CloudError(400, message, "failedPrecondition")


def _check_workers(values: Json) -> None:
    least, most = (
        None if values.get(field) is None else int(values[field])
        for field in ("numWorkers", "maxWorkers")
    )
    for field, value in (("numWorkers", least), ("maxWorkers", most)):
        if value is not None and not 1 <= value <= _MOST_WORKERS:
            raise _invalid(field, f"1 to {_MOST_WORKERS}", value)
    if least is not None and most is not None and least > most:
        raise _invalid("numWorkers", f"at most maxWorkers ({most})", least)


def _check_bucket(field: str, path: Any, store: Store) -> None:
    if path is None:
        return
    match = _PATH.fullmatch(str(path))
    if match is None:
        raise _invalid(field, "gs://BUCKET/FOLDER", path)
    if store.get(BUCKET, match[1]) is None:
        raise CloudError(404, "The specified bucket does not exist.", "notFound")


def _check_template(values: Json, store: Store) -> None:
    """Reject a template that does not exist, and parameters that it does not declare."""
    path = str(values["containerSpecGcsPath"])
    record = next(
        (
            each
            for each in store.find(_OBJECT)
            if path == f"gs://{each.outputs.get('bucket')}/{each.outputs.get('name')}"
        ),
        None,
    )
    if record is None:
        raise CloudError(404, f"Unable to open template file: {path}.", "notFound")
    try:
        spec: Any = json.loads(str(record.outputs.get("content") or ""))
        image, language = spec["image"], spec["sdkInfo"]["language"]
        metadata: dict[str, Any] = spec.get("metadata") or {}
        declared: dict[str, Any] = {each["name"]: each for each in metadata.get("parameters", ())}
    except (KeyError, TypeError, ValueError):
        raise CloudError(400, f"{path}: is not a container spec of a template", "invalid") from None
    if not image or language not in ("GO", "JAVA", "PYTHON", "YAML"):
        raise CloudError(400, f"{path}: is not a container spec of a template", "invalid")
    given = as_object(values.get("parameters")) or {}
    for name, each in declared.items():
        if name not in given and each.get("isOptional") is not True:
            raise CloudError(400, f"Missing required parameter: {name}", "invalid")
    for name in given:
        if name not in declared:
            raise CloudError(400, f"Unrecognized parameter: {name}", "invalid")


def _check_subnetwork(values: Json, found: list[Link]) -> None:
    subnetwork = next((each.target for each in found if each.path == "subnetwork"), None)
    if subnetwork is None or subnetwork.type != SUBNETWORK:
        return
    region = last_segment(str(subnetwork.outputs.get("region", "")))
    if region and region != values.get("region"):
        message = f"Subnetwork {subnetwork.name} is in region {region}, not in {values['region']}."
        raise CloudError(400, message, "badRequest")
    private = values.get("ipConfiguration") == "WORKER_IP_PRIVATE"
    if private and subnetwork.outputs.get("privateIpGoogleAccess") is not True:
        message = (
            f"Subnetwork {subnetwork.name} must have Private Google Access: workers without"
            " external addresses do not reach Google's APIs otherwise."
        )
        raise CloudError(400, message, "failedPrecondition")


def _invalid(field: str, wanted: str, got: object) -> CloudError:
    return CloudError(400, f"{field}: must be {wanted}, got {got}", "invalid")
