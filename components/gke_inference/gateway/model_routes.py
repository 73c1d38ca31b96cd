"""Models behind a Gateway of another namespace, which others share."""

from typing import NotRequired, TypedDict

import pulumi

from gke_inference.catalogue.load_balancing import CATALOGUE_PATH

from .backends import Backends
from .checks import checked_models
from .inference_gateway import RoutedModelArgs


class ModelRoutesArgs(TypedDict):
    """Inputs of `ModelRoutes`."""

    exposure: str
    """`external` or `internal`, as of the Gateway."""
    gateway_name: str
    """Kubernetes name of the Gateway, at most 51 characters."""
    gateway_namespace: str
    """Namespace of the Gateway; a listener of it must take routes from `namespace`."""
    models: list[RoutedModelArgs]
    """The models, each with its own pool."""
    namespace: str
    """Namespace of the pools, the routes and the model servers."""
    catalogue_path: NotRequired[str]
    """Path on which these models are listed. Default `/v1/models`, which one namespace of a host
    can have."""
    hostname: NotRequired[str]
    """Host clients use. Default: every host of the Gateway."""
    log_percent: NotRequired[float]
    """Share of requests, 0 to 100, with a line in the load balancer's access log. Default 100."""
    picker_failure: NotRequired[str]
    """As of `InferenceGateway`. Default `open`."""
    picker_replicas: NotRequired[int]
    """Pickers per pool, default 1; more are standbys that take over by leader election."""
    router_replicas: NotRequired[int]
    """Replicas of the catalogue, default 2."""


class ModelRoutes(pulumi.ComponentResource):
    """What `InferenceGateway` makes for models, beside a Gateway that is somebody else's.

    The Gateway's component makes address, body-based router, Cloud Armor policy and the kinds that
    pickers watch; name this namespace in its `routeSources`.
    """

    pools: pulumi.Output[list[str]]
    """Names of the pools, in the order of `models`."""

    def __init__(
        self, name: str, args: ModelRoutesArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:ModelRoutes", name, {}, opts)
        path = args.get("catalogue_path", CATALOGUE_PATH)
        if not path.startswith("/"):
            raise pulumi.InputPropertyError("cataloguePath", f"must start with '/', got {path!r}")
        if not args["models"]:
            raise pulumi.InputPropertyError("models", "must have at least one model, got none")
        models = checked_models(args)
        children = pulumi.ResourceOptions(parent=self)
        backends = Backends(name, args, children, children)
        backends.add_catalogue(models, path)
        for model in models:
            backends.add(model)
        self.pools = pulumi.Output.from_input([model.pool_name for model in models])
        self.register_outputs({"pools": self.pools})
