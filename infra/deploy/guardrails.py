"""Guardrails: the project setup of Model Armor, and the templates, calls and guards of a region."""

from collections.abc import Collection, Mapping
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
from infra.plan.guardrails import GuardrailsPlan, rails_of, timeout_ms
from infra.plan.names import Names
from infra.plan.project import ProjectPlan
from infra.stack import ArmorFilters, Failure, Guardrail, Model


def prepare_armor(
    guardrails: GuardrailsPlan, project: ProjectPlan, after: list[pulumi.Resource]
) -> None:
    """Allow Google's agent to call Model Armor, and set the project's floor, if configured."""
    if guardrails.needs_armor:
        args = project_args(guardrails.floor, project)
        ModelArmorProject("model-armor", args, pulumi.ResourceOptions(depends_on=after))


def guard_region(
    guardrails: GuardrailsPlan,
    region: RegionPlan,
    inside: pulumi.ResourceOptions,
    opts: pulumi.ResourceOptions,
) -> list[pulumi.Resource]:
    """Build the guardrails of a region, and return what its gate and Gateway depend on.

    Args:
        guardrails: Guardrails of the stack.
        region: The region.
        inside: Options with the cluster's Kubernetes provider and dependencies.
        opts: Options with their dependencies.
    """
    behind = pulumi.ResourceOptions.merge(inside, opts)
    made: list[pulumi.Resource] = [
        ModelArmor(f"{region.name}-{name}", _template_args(region, name, guardrail), opts)
        for name, guardrail in guardrails.armor.items()
    ]
    made += [
        NemoGuardrails(f"{region.name}-guardrail-{name}", args, behind)
        for name, args in nemo_args(guardrails, region.names).items()
    ]
    calls = armor_calls(guardrails.armor, region)
    if calls and region.gate is None:
        behind = pulumi.ResourceOptions.merge(behind, pulumi.ResourceOptions(depends_on=made))
        args = armor_gate_args(calls, region.names)
        made = [*made, ModelArmorGate(f"{region.name}-{CLIENT_GATE}", args, behind)]
    return made


GATE: Final = "guardrails"
"""Name of the gateway extension on a gateway without client teams."""


def project_args(floor: Guardrail | None, project: ProjectPlan) -> ModelArmorProjectArgs:
    """Return the project setup for Model Armor."""
    args = ModelArmorProjectArgs(project=project.id, project_number=project.number)
    if floor is not None and floor.filters is not None:
        args["floor"] = floor.filters
    return args


def armor_calls(armor: Mapping[str, Guardrail], region: RegionPlan) -> list[ArmorCallArgs]:
    """Return the Model Armor calls of a region's gateway, one for each value of `failure`."""
    calls: list[ArmorCallArgs] = []
    for failure in Failure:
        of = {name: one for name, one in armor.items() if one.failure is failure}
        templates = {
            model: f"projects/{region.project.id}/locations/{region.name}/templates/"
            f"{region.names.guardrail(guardrail)}"
            for model, names in _by_model(region.models).items()
            for guardrail in names
            if guardrail in of
        }
        if templates:
            longest = max(timeout_ms(one) for one in of.values())
            calls.append(
                ArmorCallArgs(
                    failure=failure,
                    location=region.name,
                    templates=templates,
                    timeout_ms=longest,
                )
            )
    return calls


def armor_gate_args(calls: list[ArmorCallArgs], names: Names) -> ModelArmorGateArgs:
    """Return the arguments of the extension on a gateway without clients."""
    return ModelArmorGateArgs(
        calls=calls,
        gate_name=GATE,
        gateway_name=names.gateway(),
        namespace=names.gateway_namespace(),
    )


def nemo_args(guardrails: GuardrailsPlan, names: Names) -> dict[str, NemoGuardrailsArgs]:
    """Return the guards of a region by name."""
    by_name: dict[str, NemoGuardrailsArgs] = {}
    for name, guardrail in guardrails.guards.items():
        by_name[name] = NemoGuardrailsArgs(
            guard_name=_guard(name),
            namespace=names.gateway_namespace(),
            replicas=guardrails.replicas[name],
        )
        if files := rails_of(guardrail):
            by_name[name]["files"] = files
    return by_name


def guards(used: Mapping[str, Guardrail], namespace: str) -> dict[str, ClientGuardArgs]:
    """Return the guards that the gate calls, by name.

    Args:
        used: Their guardrails.
        namespace: Namespace of the gate and its guards.
    """
    return {
        name: ClientGuardArgs(
            failure=guardrail.failure,
            phases=list(guardrail.phases),
            timeout_ms=timeout_ms(guardrail),
            url=f"http://{_guard(name)}.{namespace}.svc:{PORT}",
        )
        for name, guardrail in used.items()
    }


def guarded_models(used: Collection[str], models: Mapping[str, Model]) -> dict[str, list[str]]:
    """Return the guards of each guarded model and adapter.

    Args:
        used: Names of the guards.
        models: Models of the region.
    """
    found = {
        model: [name for name in names if name in used]
        for model, names in _by_model(models).items()
    }
    return {model: names for model, names in found.items() if names}


def _by_model(models: Mapping[str, Model]) -> dict[str, tuple[str, ...]]:
    """Return the guardrails of each name that clients may request."""
    return {
        name: model.guardrails
        for served, model in models.items()
        if model.guardrails
        for name in (served, *model.other_names(served))
    }


def _guard(name: str) -> str:
    return f"guardrail-{name}"


def _template_args(region: RegionPlan, name: str, guardrail: Guardrail) -> ModelArmorArgs:
    """Return the arguments of a guardrail's template in a region."""
    args = ModelArmorArgs(
        filters=guardrail.filters or ArmorFilters(),
        ignore_partial_failures=guardrail.failure is Failure.OPEN,
        labels=region.project.labels,
        location=region.name,
        project=region.project.id,
        template_id=region.names.guardrail(name),
    )
    if guardrail.enforcement is not None:
        args["enforcement"] = guardrail.enforcement
    return args
