"""Guardrails: the project setup of Model Armor, and the templates, calls and guards of a region."""

from typing import Final

import pulumi

from gke_inference.clients.gate_inputs import ClientGuardArgs
from gke_inference.guardrails.armor_calls import ArmorCallArgs
from gke_inference.guardrails.model_armor import ModelArmor, ModelArmorArgs
from gke_inference.guardrails.model_armor_gate import ModelArmorGate, ModelArmorGateArgs
from gke_inference.guardrails.model_armor_project import ModelArmorProject, ModelArmorProjectArgs
from gke_inference.guardrails.nemo import PORT
from gke_inference.guardrails.nemo_guardrails import NemoGuardrails, NemoGuardrailsArgs
from infra.plan import RegionPlan
from infra.plan.clients import GATE as CLIENT_GATE
from infra.plan.clients import gated
from infra.plan.guardrails import (
    floor_of,
    guard_replicas,
    has_armor,
    rails_of,
    timeout_ms,
    used_guardrails,
)
from infra.plan.names import resolve_names
from infra.stack import ArmorFilters, Failure, Guardrail, GuardrailKind, Platform


def prepare_armor(platform: Platform, after: list[pulumi.Resource]) -> None:
    """Allow Google's agent to call Model Armor, and set the project's floor, if configured."""
    args = project_args(platform)
    if args is not None:
        ModelArmorProject("model-armor", args, pulumi.ResourceOptions(depends_on=after))


def guard_region(
    platform: Platform,
    region: RegionPlan,
    inside: pulumi.ResourceOptions,
    gateway: pulumi.Resource,
    opts: pulumi.ResourceOptions,
) -> list[pulumi.Resource]:
    """Build the guardrails of a region, and return the resources that the gate depends on.

    Args:
        platform: The stack.
        region: The region.
        inside: Options with the cluster's Kubernetes provider and dependencies.
        gateway: The region's gateway.
        opts: Options with their dependencies.
    """
    behind = pulumi.ResourceOptions.merge(inside, opts)
    made: list[pulumi.Resource] = [
        ModelArmor(f"{region.name}-{name}", args, opts)
        for name, args in template_args(platform, region.name).items()
    ]
    made += [
        NemoGuardrails(f"{region.name}-guardrail-{name}", args, behind)
        for name, args in nemo_args(platform).items()
    ]
    args = armor_gate_args(platform, region)
    if args is not None and gated(platform) is None:
        last = pulumi.ResourceOptions(depends_on=[gateway, *made])
        both = pulumi.ResourceOptions.merge(inside, last)
        ModelArmorGate(f"{region.name}-{CLIENT_GATE}", args, both)
    return made


GATE: Final = "guardrails"
"""Name of the gateway extension on a gateway without client teams."""


def project_args(platform: Platform) -> ModelArmorProjectArgs | None:
    """Return the project setup for Model Armor, if it is used or has a floor."""
    floor = floor_of(platform)
    if not has_armor(platform) and floor is None:
        return None
    args = ModelArmorProjectArgs(
        project=platform.project, project_number=str(platform.project_number)
    )
    if floor is not None and floor.filters is not None:
        args["floor"] = floor.filters
    return args


def template_args(platform: Platform, region: str) -> dict[str, ModelArmorArgs]:
    """Return the templates of a region by guardrail."""
    return {
        name: _template(platform, region, name, guardrail)
        for name, guardrail in used_guardrails(platform, GuardrailKind.MODEL_ARMOR).items()
    }


def armor_calls(platform: Platform, region: RegionPlan) -> list[ArmorCallArgs]:
    """Return the Model Armor calls of a region's gateway, one for each value of `failure`."""
    used = used_guardrails(platform, GuardrailKind.MODEL_ARMOR)
    found: list[ArmorCallArgs] = []
    for failure in Failure:
        of = {name: one for name, one in used.items() if one.failure is failure}
        templates = {
            model: f"projects/{platform.project}/locations/{region.name}/templates/"
            f"{resolve_names(platform).guardrail(guardrail)}"
            for model, names in _by_model(platform, region).items()
            for guardrail in names
            if guardrail in of
        }
        if templates:
            longest = max(timeout_ms(one) for one in of.values())
            found.append(
                ArmorCallArgs(
                    failure=failure,
                    location=region.name,
                    templates=templates,
                    timeout_ms=longest,
                )
            )
    return found


def armor_gate_args(platform: Platform, region: RegionPlan) -> ModelArmorGateArgs | None:
    """Return the arguments of the extension on a gateway without clients, if it calls any."""
    calls = armor_calls(platform, region)
    if not calls:
        return None
    names = resolve_names(platform)
    return ModelArmorGateArgs(
        calls=calls,
        gate_name=GATE,
        gateway_name=names.gateway(),
        namespace=names.gateway_namespace(),
    )


def nemo_args(platform: Platform) -> dict[str, NemoGuardrailsArgs]:
    """Return the guards of a region by name."""
    found: dict[str, NemoGuardrailsArgs] = {}
    for name, guardrail in used_guardrails(platform, GuardrailKind.NEMO).items():
        found[name] = NemoGuardrailsArgs(
            guard_name=_guard(name),
            namespace=resolve_names(platform).gateway_namespace(),
            replicas=guard_replicas(platform, guardrail),
        )
        if files := rails_of(guardrail):
            found[name]["files"] = files
    return found


def guards(platform: Platform) -> dict[str, ClientGuardArgs]:
    """Return the guards that the gate calls, by name."""
    namespace = resolve_names(platform).gateway_namespace()
    return {
        name: ClientGuardArgs(
            failure=guardrail.failure,
            phases=list(guardrail.phases),
            timeout_ms=timeout_ms(guardrail),
            url=f"http://{_guard(name)}.{namespace}.svc:{PORT}",
        )
        for name, guardrail in used_guardrails(platform, GuardrailKind.NEMO).items()
    }


def guarded_models(platform: Platform, region: RegionPlan) -> dict[str, list[str]]:
    """Return the guards of each guarded model and adapter in a region."""
    known = used_guardrails(platform, GuardrailKind.NEMO)
    found = {
        model: [name for name in names if name in known]
        for model, names in _by_model(platform, region).items()
    }
    return {model: names for model, names in found.items() if names}


def _by_model(platform: Platform, region: RegionPlan) -> dict[str, tuple[str, ...]]:
    """Return the guardrails of each name that clients may request in a region."""
    return {
        name: model.guardrails
        for served, model in platform.models_in(region.name).items()
        if model.guardrails
        for name in (served, *model.other_names(served))
    }


def _guard(name: str) -> str:
    return f"guardrail-{name}"


def _template(platform: Platform, region: str, name: str, guardrail: Guardrail) -> ModelArmorArgs:
    args = ModelArmorArgs(
        filters=guardrail.filters or ArmorFilters(),
        ignore_partial_failures=guardrail.failure is Failure.OPEN,
        labels={"env": platform.environment},
        location=region,
        project=platform.project,
        template_id=resolve_names(platform).guardrail(name),
    )
    if guardrail.enforcement is not None:
        args["enforcement"] = guardrail.enforcement
    return args
