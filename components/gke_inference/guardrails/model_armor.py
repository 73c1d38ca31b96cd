"""Model Armor: the filters of one guardrail in one region."""

from typing import NotRequired, TypedDict

import pulumi
from pulumi_gcp import modelarmor

from gke_inference.base.checked import checked
from gke_inference.base.inputs import under, user_labels

from .settings import ArmorFilters, Confidence, Enforcement

HARMS = {
    "dangerous": "DANGEROUS",
    "harassment": "HARASSMENT",
    "hate": "HATE_SPEECH",
    "sexually_explicit": "SEXUALLY_EXPLICIT",
}
"""Filters for harmful content, by our names."""
_LEVELS = {
    Confidence.HIGH: "HIGH",
    Confidence.LOW: "LOW_AND_ABOVE",
    Confidence.MEDIUM: "MEDIUM_AND_ABOVE",
}
_ENFORCEMENTS = {
    Enforcement.BLOCK: "INSPECT_AND_BLOCK",
    Enforcement.INSPECT: "INSPECT_ONLY",
}
_REFUSED = 400
_ANSWER = "The answer was blocked by Model Armor."
_PROMPT = "The prompt was blocked by Model Armor."
_ENABLED = "ENABLED"


class ModelArmorArgs(TypedDict):
    """Inputs of `ModelArmor`."""

    filters: ArmorFilters
    """Filters to apply."""
    location: str
    """Region, which must be that of the Gateway."""
    project: str
    """Project of the template."""
    template_id: str
    """Name of the template."""
    enforcement: NotRequired[Enforcement]
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
        args = checked(ModelArmorArgs, args)
        enforcement = args.get("enforcement", Enforcement.BLOCK)
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


def filter_config(filters: ArmorFilters) -> modelarmor.TemplateFilterConfigArgsDict:
    """Return the filters in Model Armor's format.

    Raises:
        pulumi.InputPropertyError: No filter is on.
    """
    made: modelarmor.TemplateFilterConfigArgsDict = {}
    harms: list[modelarmor.TemplateFilterConfigRaiSettingsRaiFilterArgsDict] = [
        {"confidence_level": _LEVELS[level], "filter_type": kind}
        for harm, kind in HARMS.items()
        if (level := getattr(filters, harm)) is not None
    ]
    if harms:
        made["rai_settings"] = {"rai_filters": harms}
    if filters.prompt_injection is not None:
        made["pi_and_jailbreak_filter_settings"] = {
            "confidence_level": _LEVELS[filters.prompt_injection],
            "filter_enforcement": _ENABLED,
        }
    if filters.malicious_urls:
        made["malicious_uri_filter_settings"] = {"filter_enforcement": _ENABLED}
    if filters.sensitive_data:
        made["sdp_settings"] = {"basic_config": {"filter_enforcement": _ENABLED}}
    if not made:
        raise pulumi.InputPropertyError("filters", "must have one filter or more, got none")
    return made
