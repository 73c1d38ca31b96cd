"""Model Armor's API for prompts, and the metadata server's tokens of the instances that call it.

Rule modelarmor.api. The load balancers of a twin call another server (`twin.providers.gcp.armor`).
"""

import json
import re
from typing import Final

from twin.providers.gcp.armor.verdicts import sanitize, template_of
from twin.providers.gcp.iam.principals import Principal
from twin.wire.property_values import CloudError, Json, as_object, get_path
from twin.world.store import Store

_PATH: Final = re.compile(
    r"/v1/(?P<template>projects/[^/:]+/locations/[^/:]+/templates/[^/:]+):sanitizeUserPrompt"
)
_TOKEN: Final = "/computeMetadata/v1/instance/service-accounts/default/token"  # noqa: S105
_ROLE: Final = "roles/modelarmor.user"
_GRANT: Final = "gcp:projects/iAMMember:IAMMember"


def is_call(path: str) -> bool:
    """Return whether this module answers a request."""
    return path.startswith(_TOKEN) or path.endswith(":sanitizeUserPrompt")


def answer(store: Store, caller: Principal | None, path: str, body: bytes) -> tuple[int, Json]:
    """Return status and body of the response to a call."""
    if path.startswith(_TOKEN):
        return 200, {"access_token": "twin", "expires_in": 3599, "token_type": "Bearer"}
    try:
        return 200, {"sanitizationResult": _result(store, caller, path, body)}
    except CloudError as error:
        told = {"code": error.status, "message": error.message, "status": error.reason}
        return error.status, {"error": told}


def _result(store: Store, caller: Principal | None, path: str, body: bytes) -> Json:
    match = _PATH.fullmatch(path)
    if match is None:
        raise CloudError(404, f"The requested URL {path} was not found.", "NOT_FOUND")
    name = match["template"]
    if caller is not None and not _may_call(store, caller, name.split("/")[1]):
        text = f"Permission 'modelarmor.templates.useToSanitizeUserPrompt' denied on {name}"
        raise CloudError(403, text, "PERMISSION_DENIED")
    try:
        text = get_path(as_object(json.loads(body)) or {}, "userPromptData.text")
    except ValueError:
        text = None
    if not isinstance(text, str):
        raise CloudError(400, "userPromptData.text must be set.", "INVALID_ARGUMENT")
    return sanitize(template_of(store, name), text, is_prompt=True)


def _may_call(store: Store, caller: Principal, project: str) -> bool:
    return any(
        each.inputs.get("role") == _ROLE
        and each.inputs.get("project") == project
        and caller.is_named_by(each.inputs.get("member"))
        for each in store.find(_GRANT)
    )
