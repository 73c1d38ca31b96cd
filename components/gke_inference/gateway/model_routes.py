"""Models behind a shared Gateway in another namespace."""

from typing import Annotated, NotRequired, TypedDict

import pulumi
from pydantic import Field

from gke_inference.base.checked import checked
from gke_inference.catalogue.load_balancing import CATALOGUE_PATH

from .backends import Backends
from .checks import checked_models
from .inference_gateway import RoutedModelArgs
from .settings import (
    Exposure,
    LogPercent,
    PickerFailure,
    PickerReplicas,
    PickersArgs,
    RouterReplicas,
    WaitSeconds,
)


class ModelRoutesArgs(TypedDict):
    """Inputs of `ModelRoutes`."""

    exposure: Exposure
    """Exposure of the Gateway."""
    gateway_name: str
    """Kubernetes name of the Gateway, at most 51 characters."""
    gateway_namespace: str
    """Namespace of the Gateway, which must have a listener that accepts routes from `namespace`."""
    models: Annotated[list[RoutedModelArgs], Field(min_length=1)]
    """Models, each with its own pool."""
    namespace: str
    """Namespace of the pools, the routes and the model servers."""
    catalogue_path: NotRequired[str]
    """Path that lists these models. Default: `/v1/models`, which only one namespace per hostname
    can use."""
    fairness_wait_seconds: NotRequired[WaitSeconds]
    """As in `InferenceGateway`. Default: requests wait in the engines, in order of arrival."""
    hostname: NotRequired[str]
    """Hostname that clients use. Default: every hostname of the Gateway."""
    log_percent: NotRequired[LogPercent]
    """Percentage of requests in the load balancer's access log. Default: 100."""
    picker_failure: NotRequired[PickerFailure]
    """As in `InferenceGateway`. Default: `open`."""
    picker_replicas: NotRequired[PickerReplicas]
    """Pickers per pool. Additional pickers are on standby and take over by leader election.
    Default: 1."""
    pickers: NotRequired[PickersArgs]
    """As in `InferenceGateway`. Default: those of line `gie`."""
    router_replicas: NotRequired[RouterReplicas]
    """Replicas of the model catalog. Default: 2."""


class ModelRoutes(pulumi.ComponentResource):
    """The model objects of `InferenceGateway`, for a Gateway that is managed elsewhere.

    The Gateway's component creates the IP address, body router, Cloud Armor policy and the
    kinds that pickers watch. Add this namespace to its `routeSources`.
    """

    pools: pulumi.Output[list[str]]
    """Names of the pools, in the order of `models`."""

    def __init__(
        self, name: str, args: ModelRoutesArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:ModelRoutes", name, {}, opts)
        args = checked(ModelRoutesArgs, args)
        path = args.get("catalogue_path", CATALOGUE_PATH)
        if not path.startswith("/"):
            raise pulumi.InputPropertyError("cataloguePath", f"must start with '/', got {path!r}")
        models = checked_models(args)
        children = pulumi.ResourceOptions(parent=self)
        backends = Backends(name, args, children, children)
        backends.add_catalogue(models, path)
        for model in models:
            backends.add(model)
        self.pools = pulumi.Output.from_input([model.pool_name for model in models])
        self.register_outputs({"pools": self.pools})
