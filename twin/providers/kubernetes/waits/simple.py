"""Readiness of objects that depends on a status field."""

import json
import re
from typing import Any

from twin.providers.kubernetes.manifests import fields
from twin.providers.kubernetes.manifests.errors import ProviderError
from twin.providers.kubernetes.waits.state import (
    READY,
    Check,
    State,
    condition,
    failing,
    waiting,
)
from twin.wire.kube import JsonObject, Kube, KubeError


def volume_ready(obj: JsonObject, kube: Kube) -> State:
    """A PersistentVolume is ready when it is available or bound."""
    del kube
    phase = fields.section(obj, "status").get("phase")
    return READY if phase in ("Available", "Bound") else waiting(f"phase is {phase}")


def quota_ready(obj: JsonObject, kube: Kube) -> State:
    """A ResourceQuota is ready when its status has the limits of its specification."""
    del kube
    hard = fields.section(obj, "spec", "hard")
    if hard == fields.section(obj, "status", "hard"):
        return READY
    return waiting("its status does not have its limits yet")


def claim_created(obj: JsonObject, kube: Kube) -> State:
    """A new claim is ready when it is bound, or pending if its class binds with the first pod.

    With such a class, a claim that names its volume leaves `Pending` at once and never becomes
    ready, because the official provider waits only for that phase
    (`untilCoreV1PersistentVolumeClaimReady`).
    """
    phase = fields.section(obj, "status").get("phase")
    name = obj["spec"].get("storageClassName")
    mode, warning = _binding(name, kube)
    if phase == ("Pending" if mode == "WaitForFirstConsumer" else "Bound"):
        return READY
    if phase == "Lost":
        return failing("its volume is lost")
    if mode == "WaitForFirstConsumer":
        return waiting(f"phase is {phase}, not Pending as its class {name} leaves it")
    return waiting(f"no volume of {name or 'no storage class'} is bound yet{warning}")


def claim_updated(obj: JsonObject, kube: Kube) -> State:
    """An existing claim is also ready when it is bound, whatever its class."""
    if fields.section(obj, "status").get("phase") == "Bound":
        return READY
    return claim_created(obj, kube)


def _binding(name: object, kube: Kube) -> tuple[str, str]:
    """Return a storage class's binding mode, and the error if it is unknown."""
    if not name:
        return "", "; it names no storage class"
    try:
        found = kube.get(f"/apis/storage.k8s.io/v1/storageclasses/{name}")
    except KubeError:
        return "", f'; storageclasses.storage.k8s.io "{name}" not found'
    return str(found.get("volumeBindingMode") or "Immediate"), ""


def expression_ready(text: str) -> Check:
    """Return the check that an annotation `pulumi.com/waitFor` specifies.

    Args:
        text: `condition=TYPE`, `condition=TYPE=STATUS`, `jsonpath={.a.b}`, `jsonpath={.a.b}=VALUE`,
            or a JSON list of these, all of which must hold.

    Raises:
        ProviderError: the text has none of these forms.
    """
    if text.lstrip().startswith("["):
        try:
            parts: list[Any] = json.loads(text)
        except ValueError as error:
            raise ProviderError(f"pulumi.com/waitFor: is not JSON: {error}") from error
        checks = [expression_ready(str(part)) for part in parts]

        def every(obj: JsonObject, kube: Kube) -> State:
            states = [check(obj, kube) for check in checks]
            return next((state for state in states if not state.ready), READY)

        return every
    kind, _, rest = text.partition("=")
    if kind == "condition" and rest:
        name, _, status = rest.partition("=")
        return _condition_check(name, status or "True")
    if kind == "jsonpath" and rest.startswith("{."):
        path, _, value = rest.partition("}")
        return _path_check(path[2:], value.removeprefix("=") or None)
    raise ProviderError(
        "pulumi.com/waitFor: must be condition=TYPE, jsonpath={.path}=VALUE or a list, "
        f"got {text!r}"
    )


def _condition_check(name: str, status: str) -> Check:
    def check(obj: JsonObject, kube: Kube) -> State:
        del kube
        found = condition(obj, name)
        if str(found.get("status")).lower() == status.lower():
            if _is_observed(obj, found):
                return READY
            return waiting(f"condition {name} is of an older generation")
        detail = f"{found.get('reason')}: {found.get('message')}" if found else "not reported yet"
        return waiting(f"condition {name} is not {status}: {detail}")

    return check


def _is_observed(obj: JsonObject, found: dict[str, Any]) -> bool:
    """Return whether a condition is for the current generation, if it states one."""
    status = fields.section(obj, "status")
    seen = found.get("observedGeneration") or status.get("observedGeneration")
    return seen is None or int(seen) >= int(obj["metadata"].get("generation") or 0)


def _path_check(path: str, value: str | None) -> Check:
    steps = _steps(path)

    def check(obj: JsonObject, kube: Kube) -> State:
        del kube
        found = fields.get(obj, steps)
        text = str(found).lower() if isinstance(found, bool) else str(found)
        if found is fields.MISSING or (value is not None and text != value):
            shown = "missing" if found is fields.MISSING else repr(found)
            return waiting(f".{path} is {shown}, not {value or 'set'}")
        return READY

    return check


def _steps(path: str) -> fields.Path:
    """Return the steps of a path in which a backslash escapes a dot in a key."""
    if "\\." not in path:
        return fields.parse(path)
    return tuple(step.replace("\\.", ".") for step in re.split(r"(?<!\\)\.", path))
