"""The models of one cluster, for a gateway over all clusters of a fleet."""

from typing import NotRequired, TypedDict

import pulumi

from gke_inference.base.checked import checked
from gke_inference.base.manifests import Manifest, labels_for, manifest, register
from gke_inference.catalogue.engines import engine
from gke_inference.gateway.backends import Backends
from gke_inference.gateway.checks import checked_models, lines_of
from gke_inference.gateway.definitions import definitions
from gke_inference.gateway.inference_gateway import RoutedModelArgs
from gke_inference.gateway.routes import RoutedModel
from gke_inference.gateway.settings import Exposure, PickerFailure, PickerReplicas, PickersArgs

EXPORT = "networking.gke.io/export"
"""Annotation that exports an InferencePool to the config cluster of its fleet."""
EXPORTED_METRIC = "kv-cache"
"""Name under which the KV cache use of a pool is exported."""


class ExportedPoolsArgs(TypedDict):
    """Inputs of `ExportedPools`."""

    models: list[RoutedModelArgs]
    """Models, each with its own pool: of task `generate`, and without canary or live adapters."""
    namespace: str
    """Namespace of the pools, the same in every cluster of the fleet."""
    drained: NotRequired[bool]
    """Whether the pools are not exported, so that they get no new requests. Default: false."""
    has_definitions: NotRequired[bool]
    """Whether the cluster already has the kinds InferenceObjective and InferenceModelRewrite, from
    another gateway or managed elsewhere. Default: false."""
    picker_failure: NotRequired[PickerFailure]
    """As in `InferenceGateway`. Default: `open`."""
    picker_replicas: NotRequired[PickerReplicas]
    """Pickers per pool. Additional pickers are on standby and take over by leader election.
    Default: 1."""
    pickers: NotRequired[PickersArgs]
    """As in `InferenceGateway`. Default: those of line `gie`."""


class ExportedPools(pulumi.ComponentResource):
    """InferencePools with pickers that a `FleetGateway` imports, and their KV cache metric.

    Prerequisites: the cluster is a member of a `Fleet`, and the InferencePool CRD, which GKE
    installs (see `gke_minimum("multi-cluster-inference")`).
    """

    pools: pulumi.Output[list[str]]
    """Names of the pools, in the order of `models`."""

    def __init__(
        self, name: str, args: ExportedPoolsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:ExportedPools", name, {}, opts)
        args = checked(ExportedPoolsArgs, args)
        models = checked_exports(args["models"], args)
        children = pulumi.ResourceOptions(parent=self)
        made: list[pulumi.Resource] = []
        if not args.get("has_definitions", False):
            made = [
                register(f"{name}-{role}-definition", obj, children)
                for role, obj in definitions(*lines_of(args)).items()
            ]
        # Only pools are registered, which need neither a Gateway's name nor its exposure.
        backends = Backends(name, args, children, children, definitions=tuple(made))
        exported = {} if args.get("drained", False) else {EXPORT: "True"}
        for model in models:
            backends.export(model, exported)
            metric = exported_metric(model, args["namespace"])
            register(f"{name}-{model.pool_name}-metric", metric, children)
        self.pools = pulumi.Output.from_input([model.pool_name for model in models])
        self.register_outputs({"pools": self.pools})


def checked_exports(
    given: list[RoutedModelArgs], args: ExportedPoolsArgs | None = None
) -> list[RoutedModel]:
    """Return models behind a gateway over several clusters with their defaults.

    Raises:
        pulumi.InputPropertyError: An argument contradicts another.
    """
    words = {"exposure": Exposure.INTERNAL, "gateway_name": "gateway", "models": given}
    models = checked_models({**(args or {}), **words})
    if not models:
        raise pulumi.InputPropertyError("models", "must have at least one model, got none")
    for at, model in enumerate(models):
        where = f"models[{at}]"
        if not model.is_picked:
            message = "must be 'generate': only InferencePools are exported"
            raise pulumi.InputPropertyError(f"{where}.task", message)
        if model.canary is not None or model.has_live_adapters:
            field = "canary" if model.canary is not None else "hasLiveAdapters"
            message = "must not be set: the gateway cannot read a request's model"
            raise pulumi.InputPropertyError(f"{where}.{field}", message)
        if _metric_name(model) is None:
            message = f"must be an engine with a metric of KV cache use, got {model.engine!r}"
            raise pulumi.InputPropertyError(f"{where}.engine", message)
    return models


def exported_metric(model: RoutedModel, namespace: str) -> Manifest:
    """Return the AutoscalingMetric that exports the KV cache use of a model's replicas."""
    return manifest(
        "autoscaling_metric",
        model.pool_name,
        namespace,
        labels=labels_for(model.pool_name, "model-pool"),
        spec={
            "endpoints": [
                {
                    "metrics": [{"exportName": EXPORTED_METRIC, "name": _metric_name(model)}],
                    "path": "/metrics",
                    "port": model.target_port,
                }
            ],
            "selector": {"matchLabels": model.selector},
        },
    )


def _metric_name(model: RoutedModel) -> str | None:
    """Return the engine's metric of KV cache use; None if it has none without labels."""
    name = engine(model.engine).metrics.kv_cache
    return None if name is None or "{" in name else name
