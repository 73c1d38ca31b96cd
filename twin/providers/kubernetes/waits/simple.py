"""Objects that are ready when a field of their status says so."""

import json
from typing import Any

from twin.providers.kubernetes.manifests import fields
from twin.providers.kubernetes.manifests.errors import ProviderError
from twin.providers.kubernetes.waits.state import (
    READY,
    Check,
    State,
    condition,
    failing,
    is_condition,
    waiting,
)
from twin.wire.kube import JsonObject, Kube, KubeError

_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def namespace_ready(obj: JsonObject, kube: Kube) -> State:
    """A Namespace is ready when it is active."""
    del kube
    phase = fields.section(obj, "status").get("phase")
    return READY if phase == "Active" else waiting(f"phase is {phase}")


def definition_ready(obj: JsonObject, kube: Kube) -> State:
    """A CustomResourceDefinition is ready when its kind is served."""
    del kube
    names = condition(obj, "NamesAccepted")
    if names.get("status") == "False":
        return failing(f"its names are taken: {names.get('message')}")
    return READY if is_condition(obj, "Established") else waiting("its kind is not served yet")


def claim_ready(obj: JsonObject, kube: Kube) -> State:
    """A PersistentVolumeClaim is ready when it is bound, or will be when a pod uses it."""
    phase = fields.section(obj, "status").get("phase")
    if phase == "Bound" or _binds_late(obj, kube):
        return READY
    if phase == "Lost":
        return failing("its volume is gone")
    class_name = obj["spec"].get("storageClassName") or "the default storage class"
    return waiting(f"no volume of {class_name} is bound yet")


def _binds_late(claim: JsonObject, kube: Kube) -> bool:
    name = claim["spec"].get("storageClassName")
    if name == "":
        return False
    try:
        classes = kube.list("/apis/storage.k8s.io/v1/storageclasses")
    except KubeError:
        return False  # then its binding is waited for
    for each in classes:
        marks = fields.section(each, "metadata", "annotations")
        if each["metadata"]["name"] == name or (
            name is None and marks.get(_DEFAULT_CLASS) == "true"
        ):
            return each.get("volumeBindingMode") == "WaitForFirstConsumer"
    return False


def expression_ready(text: str) -> Check:
    """Return the check an annotation `pulumi.com/waitFor` asks for.

    Args:
        text: `condition=TYPE`, `condition=TYPE=STATUS`, `jsonpath={.a.b}`, `jsonpath={.a.b}=VALUE`,
            or a JSON list of these, all of which must hold.

    Raises:
        ProviderError: it is none of these.
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
        if is_condition(obj, name, status):
            return READY
        found = condition(obj, name)
        detail = f"{found.get('reason')}: {found.get('message')}" if found else "not reported yet"
        return waiting(f"condition {name} is not {status}: {detail}")

    return check


def _path_check(path: str, value: str | None) -> Check:
    steps = fields.parse(path)

    def check(obj: JsonObject, kube: Kube) -> State:
        del kube
        found = fields.get(obj, steps)
        if found is fields.MISSING or (value is not None and str(found) != value):
            shown = "missing" if found is fields.MISSING else repr(found)
            return waiting(f".{path} is {shown}, not {value or 'set'}")
        return READY

    return check
