"""A model on the platform: its servers on TPU and GPU, ready to stand behind one pool."""

from typing import Any, cast, get_origin, get_type_hints

import pulumi

from gke_inference.base.inputs import camel
from gke_inference.base.manifests import register
from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.rungs import checked_input
from gke_inference.intent.intent import ModelServerArgs
from gke_inference.serving.launcher.spec import PORT
from gke_inference.serving.model_objects import deployments, disruption_budget, launcher_config
from gke_inference.serving.model_plan import ModelPlan, model_plan

_MAPS = {name for name, of in get_type_hints(ModelServerArgs).items() if get_origin(of) is dict}
"""Inputs whose keys are the user's own words."""


class ModelServer(pulumi.ComponentResource):
    """Deployments of one engine for one model, in one of three forms.

    - `paired`: a TPU Deployment and a GPU Deployment with one label. The first holds the replicas;
      the second keeps a few warm and, through its autoscaler, gets one more for each replica of the
      first that has no node. GKE promises nothing here and need not: each pod asks for what it
      needs, and a stock-out is a Pending pod that is counted.
    - `dual-container`: one Deployment, see `serving.dual_container` for what that costs.
    - `single`: rungs of one kind, one Deployment.

    Where a rung spans several hosts, its Deployment is a LeaderWorkerSet (see `serving.groups`):
    the cluster needs a `LeaderWorkerSetOperator`.
    """

    deployments: dict[str, str]
    """Deployment name by kind of hardware: `tpu`, `gpu`, or `any`."""
    labels: dict[str, str]
    """Labels an InferencePool selects."""
    placements: list[str]
    """Rungs the model may run on, such as `tpu-v6e 2x2 reservation`."""
    port: int
    """Port of the OpenAI API and of `/metrics`."""
    target_kinds: dict[str, str]
    """What each of `deployments` is: `Deployment` or `LeaderWorkerSet`, by kind of hardware."""
    served_names: list[str]
    """Names clients may use: the model, then its adapters."""

    def __init__(
        self, name: str, args: ModelServerArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:ModelServer", name, {}, opts)
        plan = _checked(args)
        # The autoscaler owns the number of replicas once the Deployment exists.
        scaled = pulumi.ResourceOptions(parent=self, ignore_changes=["spec.replicas"])
        built = _built(plan)
        own = pulumi.ResourceOptions(parent=self)
        config = register(f"{name}-launcher", launcher_config(plan), own)
        behind = pulumi.ResourceOptions.merge(scaled, pulumi.ResourceOptions(depends_on=[config]))
        for kind, deployment in built.items():
            register(f"{name}-{kind}", deployment, behind)
        register(f"{name}-budget", disruption_budget(plan), own)
        self.deployments = plan.deployments
        self.labels = plan.pod.labels
        self.placements = plan.placements
        self.port = PORT
        self.served_names = list(plan.served_names)
        self.target_kinds = plan.target_kinds
        self.register_outputs(
            {
                "deployments": self.deployments,
                "labels": self.labels,
                "placements": self.placements,
                "port": self.port,
                "servedNames": self.served_names,
                "targetKinds": self.target_kinds,
            }
        )


def _checked(args: ModelServerArgs) -> ModelPlan:
    rungs = [checked_input(rung, f"rungs[{at}]") for at, rung in enumerate(args["rungs"])]
    if not rungs:
        raise pulumi.InputPropertyError("rungs", "must have at least one rung, got none")
    try:
        return model_plan(cast("dict[str, Any]", args), rungs)
    except InputError as error:
        raise _in_camel_case(error) from error


def _built(plan: ModelPlan) -> dict[str, Any]:
    try:
        return deployments(plan)
    except InputError as error:
        raise _in_camel_case(error) from error


def _in_camel_case(error: InputError) -> pulumi.InputPropertyError:
    """Return the error with its fields in camelCase, as callers in other languages know them."""
    head, dot, rest = error.path.partition(".")
    path = camel(head) + dot + (rest if head in _MAPS else camel(rest))
    return pulumi.InputPropertyError(path, error.message)
