"""Model servers: the TPU and GPU servers of one model, for one InferencePool."""

from typing import Any

import pulumi

from gke_inference.base.checked import camel_path, checked
from gke_inference.base.inputs import rung_of
from gke_inference.base.manifests import register
from gke_inference.catalogue.input_error import InputError
from gke_inference.intent.intent import ModelServerArgs
from gke_inference.serving.launcher.spec import PORT
from gke_inference.serving.model_objects import (
    buffer_of,
    claims,
    cluster_sets,
    deployments,
    disruption_budget,
    launcher_config,
)
from gke_inference.serving.model_plan import CLUSTER_SET, ModelPlan, model_plan

MAPS = ("adapters", "compute_classes", "engine_args", "engine_env", "engine_secrets", "models")
"""Inputs whose keys are chosen by the user."""


class ModelServer(pulumi.ComponentResource):
    """Deployments of one engine for one model, in one of four forms.

    - `paired`: a TPU Deployment and a GPU Deployment with the same label. The first runs the
      replicas. The second keeps a few replicas warm, and its autoscaler adds one for each TPU
      replica that has no node. This needs no special feature of GKE: each pod requests what it
      needs, and the autoscaler counts the Pending pods of a stock-out.
    - `dual-container`: one Deployment. See `serving.dual_container` for the drawbacks.
    - `dra`: one Deployment whose pods claim devices. See `serving.device_claims`. The cluster needs
      `DeviceDrivers`, and the pools need `device_claims`.
    - `single`: one Deployment for rungs of one kind.

    If a rung spans several hosts, a LeaderWorkerSet takes the place of the Deployment (see
    `serving.groups`), and the cluster needs a `LeaderWorkerSetOperator`. With `spanning: kuberay`,
    each replica is a RayCluster (see `serving.ray_clusters`), and the cluster needs `ray_operator`
    and a `RayScaler` in the namespace.
    """

    deployments: dict[str, str]
    """Deployment names by kind of hardware: `tpu`, `gpu`, or `any`. For Ray clusters, the name of
    their set, which is the prefix of their names."""
    labels: dict[str, str]
    """Labels that an InferencePool selects."""
    placements: list[str]
    """Rungs that the model may run on, such as `tpu-v6e 2x2 reservation`."""
    port: int
    """Port of the OpenAI API and of `/metrics`."""
    target_kinds: dict[str, str]
    """Object kind of each entry in `deployments`, by kind of hardware: `Deployment`,
    `LeaderWorkerSet` or `RayClusterSet`."""
    served_names: list[str]
    """Names that clients may use: the model, then its adapters."""

    def __init__(
        self, name: str, args: ModelServerArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:ModelServer", name, {}, opts)
        plan = _planned(checked(ModelServerArgs, args))
        # The autoscaler owns the number of replicas once the Deployment exists.
        scaled = pulumi.ResourceOptions(parent=self, ignore_changes=["spec.replicas"])
        clusters = self._replaced() if CLUSTER_SET in plan.target_kinds.values() else scaled
        built = _built(plan)
        own = pulumi.ResourceOptions(parent=self)
        config = register(f"{name}-launcher", launcher_config(plan), own)
        before: list[pulumi.Resource] = [config]
        before += [register(f"{name}-{what}", obj, own) for what, obj in claims(plan).items()]
        after_files = pulumi.ResourceOptions(depends_on=before)
        behind = pulumi.ResourceOptions.merge(clusters, after_files)
        servers = [register(f"{name}-{kind}", obj, behind) for kind, obj in built.items()]
        if (buffer := buffer_of(plan)) is not None:
            after = pulumi.ResourceOptions(parent=self, depends_on=servers)
            register(f"{name}-buffer", buffer, after)
        for kind, obj in cluster_sets(plan).items():
            register(f"{name}-{kind}-set", obj, scaled)
        adapted = pulumi.ResourceOptions(ignore_changes=["spec.minAvailable"])  # by the scaler
        register(
            f"{name}-budget",
            disruption_budget(plan),
            pulumi.ResourceOptions.merge(own, adapted) if clusters is not scaled else own,
        )
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

    def _replaced(self) -> pulumi.ResourceOptions:
        """Return options for Ray clusters: others suspend them, and KubeRay updates no pods."""
        return pulumi.ResourceOptions(
            parent=self,
            delete_before_replace=True,
            ignore_changes=["spec.suspend"],
            replace_on_changes=["spec"],
        )


def _planned(args: ModelServerArgs) -> ModelPlan:
    rungs = [rung_of(rung, f"rungs[{at}]") for at, rung in enumerate(args["rungs"])]
    try:
        return model_plan(args, rungs)
    except InputError as error:
        raise _in_camel_case(error) from error


def _built(plan: ModelPlan) -> dict[str, Any]:
    try:
        return deployments(plan)
    except InputError as error:
        raise _in_camel_case(error) from error


def _in_camel_case(error: InputError) -> pulumi.InputPropertyError:
    """Return the error with its fields in camelCase, as callers in other languages use them."""
    return pulumi.InputPropertyError(camel_path(error.path, MAPS), error.message)
