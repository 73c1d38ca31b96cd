"""Model Armor: the filters of one guardrail in one region."""

from typing import NotRequired, TypedDict

import pulumi
from pulumi_gcp import modelarmor

from gke_inference.base.inputs import one_of, under, user_labels

CONFIDENCES = ("low", "medium", "high")
"""Minimum confidence levels for a filter match."""
HARMS = {
    "dangerous": "DANGEROUS",
    "harassment": "HARASSMENT",
    "hate": "HATE_SPEECH",
    "sexually_explicit": "SEXUALLY_EXPLICIT",
}
"""Filters for harmful content, by our names."""
_LEVELS = {"high": "HIGH", "low": "LOW_AND_ABOVE", "medium": "MEDIUM_AND_ABOVE"}
_ENFORCEMENTS = {"block": "INSPECT_AND_BLOCK", "inspect": "INSPECT_ONLY"}
_REFUSED = 400
_ANSWER = "The answer was blocked by Model Armor."
_PROMPT = "The prompt was blocked by Model Armor."
_ENABLED = "ENABLED"


class ArmorFiltersArgs(TypedDict):
    """Filters of a template. An omitted filter is off."""

    dangerous: NotRequired[str]
    """Dangerous content: `low`, `medium` or `high`."""
    harassment: NotRequired[str]
    """Harassment: `low`, `medium` or `high`."""
    hate: NotRequired[str]
    """Hate speech: `low`, `medium` or `high`."""
    malicious_urls: NotRequired[bool]
    """URLs that lead to malware or phishing."""
    prompt_injection: NotRequired[str]
    """Prompt injection and jailbreaks: `low`, `medium` or `high`."""
    sensitive_data: NotRequired[bool]
    """Personal data and credentials, with the basic detectors of Sensitive Data Protection."""
    sexually_explicit: NotRequired[str]
    """Sexually explicit content: `low`, `medium` or `high`."""


class ModelArmorArgs(TypedDict):
    """Inputs of `ModelArmor`."""

    filters: ArmorFiltersArgs
    """Filters to apply."""
    location: str
    """Region, which must be that of the Gateway."""
    project: str
    """Project of the template."""
    template_id: str
    """Name of the template."""
    enforcement: NotRequired[str]
    """`block` (default) rejects matches, `inspect` only reports them."""
    ignore_partial_failures: NotRequired[bool]
    """Whether texts pass if some filters failed. Default: false."""
    labels: NotRequired[dict[str, str]]
    """Additional labels for the template."""


class ModelArmor(pulumi.ComponentResource):
    """A Model Armor template. It logs no prompts; its metrics show its actions."""

    template_name: pulumi.Output[str]
    """`projects/P/locations/L/templates/T`."""

    def __init__(
        self, name: str, args: ModelArmorArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:ModelArmor", name, {}, opts)
        enforcement = one_of(args, "enforcement", tuple(_ENFORCEMENTS), "block")
        template = modelarmor.Template(
            name,
            filter_config=filter_config(args["filters"]),
            labels=user_labels(args, "guardrails"),
            location=args["location"],
            project=args["project"],
            template_id=args["template_id"],
            template_metadata={
                "custom_llm_response_safety_error_code": _REFUSED,
                "custom_llm_response_safety_error_message": _ANSWER,
                "custom_prompt_safety_error_code": _REFUSED,
                "custom_prompt_safety_error_message": _PROMPT,
                "enforcement_type": _ENFORCEMENTS[enforcement],
                "ignore_partial_invocation_failures": args.get("ignore_partial_failures", False),
                "log_sanitize_operations": False,
            },
            opts=under(self),
        )
        self.template_name = template.name
        self.register_outputs({"templateName": self.template_name})


def filter_config(filters: ArmorFiltersArgs) -> modelarmor.TemplateFilterConfigArgsDict:
    """Return the filters in Model Armor's format.

    Raises:
        pulumi.InputPropertyError: A confidence is unknown, or no filter is on.
    """
    made: modelarmor.TemplateFilterConfigArgsDict = {}
    harms: list[modelarmor.TemplateFilterConfigRaiSettingsRaiFilterArgsDict] = [
        {"confidence_level": _level(filters, harm), "filter_type": kind}
        for harm, kind in HARMS.items()
        if filters.get(harm) is not None
    ]
    if harms:
        made["rai_settings"] = {"rai_filters": harms}
    if filters.get("prompt_injection") is not None:
        made["pi_and_jailbreak_filter_settings"] = {
            "confidence_level": _level(filters, "prompt_injection"),
            "filter_enforcement": _ENABLED,
        }
    if filters.get("malicious_urls", False):
        made["malicious_uri_filter_settings"] = {"filter_enforcement": _ENABLED}
    if filters.get("sensitive_data", False):
        made["sdp_settings"] = {"basic_config": {"filter_enforcement": _ENABLED}}
    if not made:
        raise pulumi.InputPropertyError("filters", "must have one filter or more, got none")
    return made


def _level(filters: ArmorFiltersArgs, name: str) -> str:
    level = filters.get(name)
    if level not in _LEVELS:
        rule = f"must be one of {', '.join(CONFIDENCES)}, got {level!r}"
        raise pulumi.InputPropertyError(f"filters.{name}", rule)
    return _LEVELS[str(level)]
