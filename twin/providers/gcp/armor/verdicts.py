"""Model Armor's verdicts on texts: the filters of a template, and simple detectors.

The format is that of `sanitizeUserPrompt` and `sanitizeModelResponse` (docs.cloud.google.com/
model-armor/reference/rest/v1/projects.locations.templates). The detectors are the twin's own (rule
modelarmor.filters). They detect obvious cases, but no harmful content.
"""

import re
from typing import Any, Final, cast

from twin.wire.property_values import CloudError, Json, as_list, as_object, get_path
from twin.world.rules import all_rules
from twin.world.store import Record, Store
from workloads.guardrails.detectors import find_prompt_injection, mask_personal_data

TEMPLATE: Final = "gcp:modelarmor/template:Template"
_PROJECT_MEMBER: Final = "gcp:projects/iAMMember:IAMMember"
_CALLER_ROLES: Final = ("roles/modelarmor.calloutUser", "roles/modelarmor.user")
_AGENTS: Final = "gcp-sa-dep.iam.gserviceaccount.com"
_AGENT: Final = re.compile(rf"serviceAccount:service-\d+@{re.escape(_AGENTS)}")
_MATCH: Final = "MATCH_FOUND"
_NO_MATCH: Final = "NO_MATCH_FOUND"
_DONE: Final = "EXECUTION_SUCCESS"
_SKIPPED: Final = "EXECUTION_SKIPPED"
_INFO_TYPES: Final = {
    "<CARD>": "CREDIT_CARD_NUMBER",
    "<EMAIL>": "EMAIL_ADDRESS",
    "<IBAN>": "IBAN_CODE",
    "<PHONE>": "PHONE_NUMBER",
}
_URL: Final = re.compile(r"https?://([A-Za-z0-9.-]+)(?::\d+)?(?:/[^\s\"'<>]*)?", re.IGNORECASE)


def template_of(store: Store, name: str) -> Record:
    """Return a template by its full name.

    Raises:
        CloudError: The template does not exist.
    """
    found = store.get(TEMPLATE, name)
    if found is None or found.status == "deleting":
        raise CloudError(404, f"Template {name} not found.", "NOT_FOUND")
    return found


def check_callable(store: Store, name: str) -> None:
    """Check that Google's service agent may use a template (rule modelarmor.agent).

    Raises:
        CloudError: One of its roles is missing.
    """
    project = name.split("/")[1]
    granted = {
        str(one.inputs.get("role"))
        for one in store.find(_PROJECT_MEMBER)
        if one.inputs.get("project") == project and _AGENT.fullmatch(str(one.inputs.get("member")))
    }
    for role in _CALLER_ROLES:
        if role not in granted:
            text = f"service-NUMBER@{_AGENTS} needs {role} on project {project}"
            raise CloudError(403, text, "PERMISSION_DENIED")


def sanitize(template: Record, text: str, *, is_prompt: bool) -> Json:
    """Return the sanitization result of a text.

    Args:
        template: Template with the filters.
        text: Text to inspect.
        is_prompt: Whether it is a prompt; only prompts are inspected for injections.
    """
    filters: Json = as_object(template.inputs.get("filterConfig")) or {}
    found: Json = {}
    if _is_on(filters, "piAndJailbreakFilterSettings") and is_prompt:
        state = _state(find_prompt_injection(text))
        result = {"executionState": _DONE, "matchState": state}
        if state == _MATCH:
            result["confidenceLevel"] = "HIGH"
        found["pi_and_jailbreak"] = {"piAndJailbreakFilterResult": result}
    if _is_on(filters, "sdpSettings.basicConfig"):
        findings = _personal_data(text)
        state = _state(bool(findings))
        inspected: Json = {"executionState": _DONE, "matchState": state}
        if findings:
            inspected["findings"] = findings
        found["sdp"] = {"sdpFilterResult": {"inspectResult": inspected}}
    if _is_on(filters, "maliciousUriFilterSettings"):
        uris = _malicious(text)
        result: Json = {"executionState": _DONE, "matchState": _state(bool(uris))}
        if uris:
            result["maliciousUriMatchedItems"] = [{"uri": uri} for uri in uris]
        found["malicious_uris"] = {"maliciousUriFilterResult": result}
    if as_list(get_path(filters, "raiSettings.raiFilters")):
        skipped = {"executionState": _SKIPPED, "matchState": _NO_MATCH}
        found["rai"] = {"raiFilterResult": skipped}
    return {
        "filterMatchState": _state(any(_matched(one) for one in found.values())),
        "filterResults": found,
        "invocationResult": "PARTIAL" if "rai" in found else "SUCCESS",
        "sanitizationMetadata": {},
    }


def is_blocked(template: Record, result: Json) -> bool:
    """Return whether a load balancer blocks a text with this result."""
    metadata = as_object(template.inputs.get("templateMetadata")) or {}
    inspects = metadata.get("enforcementType") == "INSPECT_ONLY"
    return result["filterMatchState"] == _MATCH and not inspects


def refusal(template: Record, *, is_prompt: bool) -> tuple[int, str]:
    """Return status and message for a blocked text: the template's, or Google's."""
    metadata = as_object(template.inputs.get("templateMetadata")) or {}
    part = "PromptSafety" if is_prompt else "LlmResponseSafety"
    code, message = all_rules()["modelarmor.refusal"].value
    return (
        int(metadata.get(f"custom{part}ErrorCode") or code),
        str(metadata.get(f"custom{part}ErrorMessage") or message),
    )


def _state(is_match: bool) -> str:
    return _MATCH if is_match else _NO_MATCH


def _matched(result: Any) -> bool:
    if isinstance(result, dict):
        return any(_matched(value) for value in cast("dict[str, Any]", result).values())
    return result == _MATCH


def _is_on(filters: Json, path: str) -> bool:
    found = as_object(get_path(filters, path))
    return found is not None and found.get("filterEnforcement") == "ENABLED"


def _personal_data(text: str) -> list[Json]:
    masked = mask_personal_data(text)
    return [
        {"infoType": kind, "likelihood": "VERY_LIKELY"}
        for mask, kind in _INFO_TYPES.items()
        if masked.count(mask) > text.count(mask)
    ]


def _malicious(text: str) -> list[str]:
    hosts: list[str] = all_rules()["modelarmor.urls"].value
    return [
        match.group()
        for match in _URL.finditer(text)
        if any(match[1].lower() == host or match[1].lower().endswith(f".{host}") for host in hosts)
    ]
