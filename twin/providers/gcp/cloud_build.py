"""Cloud Build's REST API on a twin: builds of our own images, without their content.

A build is checked as Google would before it is accepted, its sources are read, and its tags appear
in the repositories. No step runs: the twin has no container engine (rule cloud.build).
"""

import hashlib
import io
import json
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from twin.host.paths import TwinPaths
from twin.providers.gcp.effects import gcs
from twin.providers.gcp.iam.grants import BUCKET, REPOSITORY, allows
from twin.providers.gcp.iam.principals import Principal
from twin.providers.gcp.server import world_of
from twin.wire.property_values import CloudError, Json, as_list, as_object, get_path
from twin.world.built_images import PushRefused, push, tagged
from twin.world.store import Record, Store

HOST: Final = "cloudbuild.googleapis.com"
_SERVICE: Final = "gcp:projects/service:Service"
_ACCOUNT: Final = "gcp:serviceaccount/account:Account"
_TRIGGER: Final = "gcp:cloudbuild/trigger:Trigger"
_PATH: Final = re.compile(
    r"/v1/(?P<parent>projects/(?P<project>[^/]+)/locations/[^/]+)/"
    r"(?:builds(?:/(?P<build>[^/:]+))?|triggers/(?P<trigger>[^/:]+):run)"
)
_LOGGING: Final = ("CLOUD_LOGGING_ONLY", "NONE")
_DOCKERFILE: Final = re.compile(r'--file "?([^\s"]+)"?')
_BASE: Final = re.compile(r'--build-arg "?BASE=([^\s"]+)"?')
_TAG: Final = re.compile(r'--tag "?([^\s"]+)"?')
_VARIABLE: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_PUSH: Final = "artifactregistry.repositories.uploadArtifacts"


class _Failed(Exception):
    """A build that was accepted and failed; one line."""


def is_of_builds(method: str, path: str) -> bool:
    """Return whether a call is for a build, which this module serves."""
    return _PATH.fullmatch(path) is not None and method in {"GET", "POST"}


def answer(paths: TwinPaths, method: str, path: str, body: Json | None) -> tuple[int, Json]:
    """Return status and body of the response to a call."""
    match = _PATH.fullmatch(path)
    if match is None:
        return 404, {"error": {"message": f"{path} was not found"}}
    store = world_of(paths).store
    try:
        if method == "GET":
            return 200, _shown(paths, str(match["build"]))
        _check_api(store, match["project"])
        if match["trigger"] is not None:
            build, is_of_trigger = _of_trigger(store, match, body or {}), True
        else:
            build, is_of_trigger = body or {}, False
        account = _check(store, match["project"], build)
        made = _run(paths, store, match["parent"], build, account, has_source=is_of_trigger)
    except CloudError as error:
        details = [{"reason": error.reason}]
        return error.status, {"error": {"message": error.message, "details": details}}
    return 200, {
        "name": f"operations/build/{match['project']}/{made['id']}",
        "metadata": {"build": {**made, "status": "QUEUED"}},
    }


def _check_api(store: Store, project: str) -> None:
    enabled = {each.name for each in store.find(_SERVICE) if each.project == project}
    if HOST not in enabled:
        text = f"Cloud Build API has not been used in project {project} before or it is disabled."
        raise CloudError(403, text, "SERVICE_DISABLED")


def _of_trigger(store: Store, match: re.Match[str], body: Json) -> Json:
    """Return the build of a trigger, named by its name or ID, with the commit in its variables."""
    parent = f"{match['parent']}/triggers/"
    for each in store.find(_TRIGGER):
        if each.id.startswith(parent) and match["trigger"] in (
            each.inputs.get("name"),
            each.id.removeprefix(parent),
        ):
            return _expanded(each, str(get_path(body, "source.commitSha") or ""))
    raise CloudError(404, "Requested entity was not found.", "NOT_FOUND")


def _expanded(trigger: Record, commit: str) -> Json:
    build = as_object(trigger.inputs.get("build")) or {}
    known = {**(as_object(trigger.inputs.get("substitutions")) or {}), "COMMIT_SHA": commit}
    steps = [
        {
            **step,
            "env": [_substituted(str(each), known) for each in as_list(step.get("envs")) or []],
        }
        for step in map(as_object, as_list(build.get("steps")) or [])
        if step is not None
    ]
    return {**build, "steps": steps, "serviceAccount": trigger.inputs.get("serviceAccount")}


def _check(store: Store, project: str, build: Json) -> str:
    """Return the email of the account that builds, after checking a request.

    Raises:
        CloudError: Google would not accept the build.
    """
    email = str(build.get("serviceAccount") or "").rpartition("/")[2]
    known = {str(each.outputs.get("email")) for each in store.find(_ACCOUNT)}
    if email not in known:
        text = f"service account {email or '(none)'} of project {project} does not exist"
        raise CloudError(404, text, "NOT_FOUND")
    if get_path(build, "options.logging") not in _LOGGING and not build.get("logsBucket"):
        text = (
            "if 'build.service_account' is specified, the build must either (a) specify"
            " 'build.logs_bucket', (b) use the REGIONAL_USER_OWNED_BUCKET"
            " build.options.default_logs_bucket_behavior option, or (c) use either"
            " CLOUD_LOGGING_ONLY / NONE logging options"
        )
        raise CloudError(400, text, "INVALID_ARGUMENT")
    steps = _steps(build)
    if not steps:
        raise CloudError(400, "build must have at least one step", "INVALID_ARGUMENT")
    for at, step in enumerate(steps):
        if not step.get("name"):
            raise CloudError(400, f"build step {at} must specify name", "INVALID_ARGUMENT")
        if step.get("script") and (step.get("entrypoint") or step.get("args")):
            text = f"build step {at}: script cannot be used with entrypoint or args"
            raise CloudError(400, text, "INVALID_ARGUMENT")
    return email


def _run(
    paths: TwinPaths, store: Store, parent: str, build: Json, account: str, *, has_source: bool
) -> Json:
    """Return the build after it ended; its ID is derived from its content."""
    content = json.dumps(build, sort_keys=True).encode()
    found: Json = {
        "id": hashlib.sha256(content).hexdigest()[:32],
        "name": "",
        "logUrl": "",
        "status": "SUCCESS",
    }
    found["name"] = f"{parent}/builds/{found['id']}"
    found["logUrl"] = f"https://console.cloud.google.com/cloud-build/builds/{found['id']}"
    try:
        caller = Principal.of_google_account(account)
        sources = None if has_source else _sources(paths, store, build, caller)
        _push(paths, store, build, caller, sources)
    except (_Failed, PushRefused) as error:
        found |= {"status": "FAILURE", "statusDetail": str(error)}
    folder = paths.root / "builds"
    folder.mkdir(exist_ok=True)
    (folder / f"{found['id']}.json").write_text(json.dumps(found))
    return found


def _shown(paths: TwinPaths, build: str) -> Json:
    try:
        return json.loads((paths.root / "builds" / f"{build}.json").read_text())
    except FileNotFoundError:
        raise CloudError(404, "Requested entity was not found.", "NOT_FOUND") from None


def _sources(
    paths: TwinPaths, store: Store, build: Json, caller: Principal
) -> Mapping[str, bytes] | None:
    """Return the files of the archive in Cloud Storage that a build reads.

    Raises:
        _Failed: There is none, the account may not read it, or it is no archive.
    """
    bucket = str(get_path(build, "source.storageSource.bucket") or "")
    name = str(get_path(build, "source.storageSource.object") or "")
    where = f"gs://{bucket}/{name}"
    if not bucket or not name:
        return {}
    if not allows(store, caller, "storage.objects.get", BUCKET, bucket):
        raise _Failed(f"{where}: {caller.name} does not have storage.objects.get access")
    if not gcs.has_object(paths, bucket, name):
        raise _Failed(f"{where}: the object does not exist")
    content = gcs.read(paths, bucket, name)
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
            return {
                each.name: file.read()
                for each in archive
                if (file := archive.extractfile(each)) is not None
            }
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise _Failed(f"{where}: must be a tar archive with gzip: {error}") from None


def _push(
    paths: TwinPaths,
    store: Store,
    build: Json,
    caller: Principal,
    sources: Mapping[str, bytes] | None,
) -> None:
    """Push the tags of a build's steps.

    Raises:
        _Failed: A Dockerfile or the digest of a base is missing, or the account may not push.
        PushRefused: Artifact Registry refuses.
    """
    digest = hashlib.sha256()
    for step in _steps(build):
        script = _script(step)
        for file in _DOCKERFILE.findall(script):
            if sources is not None and file not in sources:
                raise _Failed(f"failed to read dockerfile: open {file}: no such file or directory")
            digest.update(script.encode())
        for base in _BASE.findall(script):
            if "@sha256:" not in base:
                raise _Failed(f"{base}: must have a digest, as the Dockerfile has no default base")
    for name, content in sorted((sources or {}).items()):
        digest.update(name.encode() + b"\0" + content)
    for reference in _tags(build):
        name = tagged(reference)
        if name is not None and not allows(store, caller, _PUSH, REPOSITORY, name.parent):
            raise _Failed(f'{reference}: Permission "{_PUSH}" denied on resource "{name.parent}"')
        push(paths, reference, f"sha256:{digest.hexdigest()}")


def _tags(build: Json) -> Iterator[str]:
    for step in _steps(build):
        yield from _TAG.findall(_script(step))


def _script(step: Json) -> str:
    """Return the script of a step with the values of its variables."""
    given = [str(each).partition("=") for each in as_list(step.get("env")) or []]
    return _substituted(str(step.get("script") or ""), {key: value for key, _, value in given})


def _substituted(text: str, values: Mapping[str, Any]) -> str:
    return _VARIABLE.sub(
        lambda found: str(values.get(found[1] or found[2], found[0])),
        text,
    )


def _steps(build: Json) -> list[Json]:
    return [step for step in map(as_object, as_list(build.get("steps")) or []) if step is not None]
