"""Secret versions as in Secret Manager: numbered, with `latest` for the newest.

Versions from stacks and from operators are the same kind of record, so both survive a restart and
are deleted with their secret. Errors have the wording of the API (rule cloud.secrets).
"""

import base64
import binascii
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from twin.providers.gcp.iam.roles import ROLES
from twin.providers.gcp.resources.identity import project_number
from twin.wire.property_values import CloudError, Json, as_object, last_segment
from twin.world.rules import all_rules
from twin.world.store import Record, Store, Use, new_record

SECRET: Final = "gcp:secretmanager/secret:Secret"  # noqa: S105 - a resource type
VERSION: Final = "gcp:secretmanager/secretVersion:SecretVersion"
_MEMBER: Final = "gcp:secretmanager/secretIamMember:SecretIamMember"
_PROJECT_MEMBER: Final = "gcp:projects/iAMMember:IAMMember"
_READERS: Final = frozenset(
    role for role, permissions in ROLES.items() if "secretmanager.versions.access" in permissions
)
_STATES: Final = {"enable": "ENABLED", "disable": "DISABLED", "destroy": "DESTROYED"}
_POLYNOMIAL: Final = 0x82F63B78  # CRC-32C, reflected


def crc32c(content: bytes) -> int:
    """Return the CRC-32C of a payload."""
    found = 0xFFFFFFFF
    for byte in content:
        found ^= byte
        for _ in range(8):
            found = (found >> 1) ^ (_POLYNOMIAL if found & 1 else 0)
    return found ^ 0xFFFFFFFF


def next_version(store: Store, secret: str, urn: str) -> str:
    """Return the ID of the next version from a stack, or of the one being created."""
    for record in versions(store, secret):
        if urn and record.urn == urn and not record.acknowledged:
            return record.id
    number = store.next_number(f"versions of {secret}")
    return f"{secret}/versions/{number}"


def versions(store: Store, secret: str) -> list[Record]:
    """Return the versions of a secret, newest first."""
    found = [each for each in store.find(VERSION) if each.id.startswith(f"{secret}/versions/")]
    return sorted(found, key=lambda each: int(last_segment(each.id)), reverse=True)


def payload_of(values: Json) -> bytes:
    """Return the payload of a version from a stack.

    Raises:
        CloudError: It is declared as base64 but is not, or it is too large.
    """
    data = str(values.get("secretData") or values.get("secretDataWo") or "")
    payload = _decoded(data) if values.get("isSecretDataBase64") is True else data.encode()
    return _checked(payload)


def _checked(payload: bytes) -> bytes:
    most = int(all_rules()["cloud.secrets.payload"].value)
    if len(payload) > most:
        text = f"The provided Secret payload is too large ([{len(payload)}] > {most} bytes)."
        raise CloudError(400, text, "INVALID_ARGUMENT")
    return payload


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError) as error:
        text = f"Invalid value at 'payload.data' (TYPE_BYTES), Base64 decoding failed: {error}"
        raise CloudError(400, text, "INVALID_ARGUMENT") from error


def access(store: Store, secret: str, version: str) -> Json:
    """Return a version with its payload.

    Raises:
        CloudError: No member may read the secret, or the version is missing or not enabled.
    """
    name = f"{secret}/versions/{version}"
    if not _is_readable(store, secret):
        raise denied("secretmanager.versions.access", name)
    record = _version(store, secret, version)
    state = _state(record)
    if state != "ENABLED":
        text = f"Secret Version [{_public(record.id)}] is in {state} state."
        raise CloudError(400, text, "FAILED_PRECONDITION")
    payload = payload_of({**record.outputs, **record.inputs})
    data = base64.b64encode(payload).decode()
    sum_of = str(crc32c(payload))
    return {"name": _public(record.id), "payload": {"data": data, "dataCrc32c": sum_of}}


def denied(permission: str, name: str) -> CloudError:
    """Return the error for a missing permission on a secret or version."""
    text = f"Permission '{permission}' denied for resource '{name}' (or it may not exist)."
    return CloudError(403, text, "PERMISSION_DENIED")


def add(store: Store, secret: str, body: Json) -> Json:
    """Add a version from an operator and return it.

    Raises:
        CloudError: The secret does not exist, or the payload is not valid.
    """
    owner = _secret(store, secret)
    given = as_object(body.get("payload")) or {}
    payload = _checked(_decoded(str(given.get("data", ""))))
    wanted = given.get("dataCrc32c")
    if wanted is not None and str(wanted) != str(crc32c(payload)):
        text = "The payload checksum does not match: data_crc32c is of other data."
        raise CloudError(400, text, "INVALID_ARGUMENT")
    name = next_version(store, secret, "")
    data = {"secretData": base64.b64encode(payload).decode(), "isSecretDataBase64": True}
    outputs = {"name": name, "version": last_segment(name), "enabled": True, "secret": secret}
    record = new_record(VERSION, name, last_segment(name), owner.project, "", data, outputs)
    record = replace(record, status="ready", acknowledged=True)
    store.add(record, [Use(SECRET, secret, blocks=False)])
    return _shown(record)


def change(store: Store, secret: str, version: str, verb: str) -> Json:
    """Enable, disable or destroy a version and return it.

    Raises:
        CloudError: The version does not exist, or is already destroyed.
    """
    record = _version(store, secret, version)
    if _state(record) == "DESTROYED":
        text = f"Secret Version [{_public(record.id)}] is in DESTROYED state."
        raise CloudError(400, text, "FAILED_PRECONDITION")
    state = _STATES[verb]
    outputs = {**record.outputs, "enabled": state == "ENABLED"}
    inputs = record.inputs
    if state == "DESTROYED":
        outputs["destroyTime"] = _time(time.time())
        inputs = {k: v for k, v in inputs.items() if not k.startswith("secretData")}
        outputs = {k: v for k, v in outputs.items() if not k.startswith("secretData")}
    store.set(VERSION, record.id, inputs=inputs, outputs=outputs)
    return _shown(_version(store, secret, version))


def show(store: Store, secret: str, version: str) -> Json:
    """Return a version without its payload.

    Raises:
        CloudError: There is no such version.
    """
    return _shown(_version(store, secret, version))


def listed(store: Store, secret: str) -> Json:
    """Return the versions of a secret, newest first.

    Raises:
        CloudError: There is no such secret.
    """
    _secret(store, secret)
    found = [_shown(each) for each in versions(store, secret)]
    return {"versions": found, "totalSize": len(found)}


def _secret(store: Store, secret: str) -> Record:
    found = store.get(SECRET, secret)
    if found is None or found.status == "deleting":
        text = f"Secret [{_public(secret)}] not found."
        raise CloudError(404, text, "NOT_FOUND")
    return found


def _version(store: Store, secret: str, version: str) -> Record:
    """Return a version; `latest` is the newest one, whatever its state."""
    found = store.get(SECRET, secret)
    known = versions(store, secret) if found is not None and found.status != "deleting" else []
    if not known:
        text = f"Secret [{_public(secret)}] not found or has no versions."
        raise CloudError(404, text, "NOT_FOUND")
    if version == "latest":
        return known[0]
    for record in known:
        if last_segment(record.id) == version:
            return record
    name = _public(f"{secret}/versions/{version}")
    raise CloudError(404, f"Secret Version [{name}] not found.", "NOT_FOUND")


def _is_readable(store: Store, secret: str) -> bool:
    """Return whether any member has a role that reads the secret; the caller is not checked."""
    project = secret.split("/")[1]

    def reads(record: Record) -> bool:
        return record.inputs.get("role") in _READERS

    def names_it(record: Record) -> bool:
        named = str(record.inputs.get("secretId"))
        return named == secret or (named == last_segment(secret) and record.project == project)

    matches: Callable[[Record], bool] = lambda each: reads(each) and names_it(each)  # noqa: E731
    return any(map(matches, store.find(_MEMBER))) or any(
        reads(each) and each.inputs.get("project") == project
        for each in store.find(_PROJECT_MEMBER)
    )


def _state(record: Record) -> str:
    if record.outputs.get("destroyTime"):
        return "DESTROYED"
    return "DISABLED" if record.outputs.get("enabled") is False else "ENABLED"


def _public(name: str) -> str:
    """Return a resource name with the project number, as in the API."""
    _, project, *rest = name.split("/")
    return "/".join(("projects", project_number(project), *rest))


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _shown(record: Record) -> Json:
    found: Json = {
        "name": _public(record.id),
        "createTime": _time(record.created),
        "state": _state(record),
        "replicationStatus": {"automatic": {}},
    }
    if record.outputs.get("destroyTime"):
        found["destroyTime"] = record.outputs["destroyTime"]
    return found
