"""Registers the objects behind a Gateway: pools with pickers and routes, and the model catalog."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi

from gke_inference.base.manifests import Manifest, register
from gke_inference.catalogue.engines import engine
from gke_inference.catalogue.load_balancing import CATALOGUE_PATH, HEALTH_PATH
from gke_inference.catalogue.versions import api

from . import canary as gateway_canary
from . import model_catalogue as gateway_catalogue
from . import routes as gateway_routes
from .checks import FAILURE_MODES
from .model_catalogue import catalogue_objects
from .picker import picker_objects
from .picker_config import FlowControl
from .routes import RoutedModel, next_model
from .settings import LOG_PERCENT, Exposure, PickerFailure


@dataclass(frozen=True)
class Backends:
    """The children of a component with models behind a Gateway."""

    name: str
    """Name of the component, the prefix of its children's names."""
    args: Mapping[str, Any]
    """Arguments of the component: `InferenceGatewayArgs` or `ModelRoutesArgs`."""
    opts: pulumi.ResourceOptions
    """Options of a child."""
    behind: pulumi.ResourceOptions
    """Options of a child that attaches to the Gateway and may depend on it."""
    guard: pulumi.Resource | None = None
    """The Cloud Armor policy, if the component creates it. It is deleted after its users."""
    definitions: tuple[pulumi.Resource, ...] = ()
    """Kinds that pickers watch, if the component creates them."""

    @property
    def _place(self) -> tuple[str, str, str | None]:
        return self.args["namespace"], self.args["gateway_name"], self.args.get("hostname")

    @property
    def _gateway_namespace(self) -> str | None:
        return self.args.get("gateway_namespace")

    def add_catalogue(self, models: list[RoutedModel], path: str = CATALOGUE_PATH) -> None:
        """Register the model catalog and its route.

        Args:
            models: Models to list.
            path: Path of the list. If it is not the default, nothing else is answered.
        """
        namespace, gateway, hostname = self._place
        catalogue, port = f"{gateway}-catalogue", gateway_catalogue.PORT
        served: dict[str, list[str]] = {name: [] for name in self.args.get("backend_names", [])}
        served |= {model.model_name: list(model.adapters) for model in models}
        served |= {name: [] for model in models for name in model.further_models}
        replicas = self.args.get("router_replicas", 2)
        has_roles = any(model.has_roles for model in models)
        for obj in catalogue_objects(
            catalogue, namespace, served, replicas, path, refuses_messages=has_roles
        ):
            register(f"{self.name}-catalogue-{role_of(obj)}", obj, self.opts)
        route = gateway_routes.catalogue_route(
            catalogue,
            namespace,
            gateway,
            hostname,
            port,
            path=path,
            models=models,
            gateway_namespace=self._gateway_namespace,
        )
        policies = gateway_routes.policies(
            catalogue,
            namespace,
            api("service"),
            health_path=HEALTH_PATH,
            port=port,
            timeout_seconds=10,
            **self._edge,
        )
        for obj in [route, *policies]:
            register(f"{self.name}-catalogue-{role_of(obj)}", obj, self._guarded(self.behind))

    def add(self, model: RoutedModel) -> None:
        """Register a model: its pool, its canary's pool, and their routes."""
        pools = [self._add_pool(f"{self.name}-{model.pool_name}", model)]
        canary = model.canary
        if canary is not None:
            version = gateway_canary.canary_model(model, canary)
            pools.append(self._add_pool(f"{self.name}-{canary.pool_name}", version))
        if model.next is not None:
            pools.append(self._add_pool(f"{self.name}-{model.next.pool_name}", next_model(model)))
        behind_pools = pulumi.ResourceOptions.merge(
            self.behind, pulumi.ResourceOptions(depends_on=pools)
        )
        of = {"gateway_namespace": self._gateway_namespace}
        for number, obj in enumerate(gateway_routes.routes(model, *self._place, **of), 1):
            register(f"{self.name}-{model.pool_name}-route-{number}", obj, behind_pools)
        if canary is not None:
            pinned = gateway_canary.pinned_routes(model, canary, *self._place, **of)
            for number, obj in enumerate(pinned, 1):
                register(f"{self.name}-{canary.pool_name}-pinned-{number}", obj, behind_pools)

    def export(self, model: RoutedModel, annotations: Mapping[str, str]) -> None:
        """Register a model's pool for Gateways of other clusters, without routes and policies."""
        self._add_picked(f"{self.name}-{model.pool_name}", model, annotations)

    def _add_picked(
        self, name: str, model: RoutedModel, annotations: Mapping[str, str] | None = None
    ) -> tuple[pulumi.Resource, pulumi.ResourceOptions]:
        """Register a pool, its picker and its objectives. Return the pool, and options after it."""
        namespace = self.args["namespace"]
        failure = self.args.get("picker_failure", PickerFailure.OPEN)
        mode = FAILURE_MODES[PickerFailure.CLOSED if model.has_roles else failure]
        made = gateway_routes.pool(model, namespace, mode, annotations)
        pool = register(name, made, self.opts)
        # A picker becomes ready once it has seen its pool, and starts only if its kinds exist.
        after_pool = pulumi.ResourceOptions.merge(
            self.opts, pulumi.ResourceOptions(depends_on=[pool, *self.definitions])
        )
        if model.is_picked:
            for obj in picker_objects(
                model.picker_name,
                namespace,
                model.pool_name,
                has_adapters=bool(model.adapters) or model.has_live_adapters,
                replicas=self.args.get("picker_replicas", 1),
                timeout_seconds=model.timeout_seconds,
                threshold_tokens=model.threshold_tokens,
                metrics=engine(model.engine).metrics,
                flow=self._flow,
                setup=model.setup,
            ):
                register(f"{name}-picker-{role_of(obj)}", obj, after_pool)
        for obj in gateway_routes.objectives(model, namespace):
            register(f"{name}-{obj['metadata']['name']}", obj, after_pool)
        return pool, after_pool

    def _add_pool(self, name: str, model: RoutedModel) -> pulumi.Resource:
        """Register one version of a model, except its routes."""
        pool, after_pool = self._add_picked(name, model)
        if model.grpc_port is not None:
            self._add_grpc(f"{name}-grpc", model, model.grpc_port, after_pool)
        for obj in gateway_routes.policies(
            model.pool_name,
            self.args["namespace"],
            model.backend,
            health_path=engine(model.engine).health_path,
            port=model.target_port,
            timeout_seconds=model.timeout_seconds,
            **self._edge,
        ):
            register(f"{name}-{role_of(obj)}", obj, self._guarded(after_pool))
        return pool

    def _add_grpc(
        self, name: str, model: RoutedModel, port: int, opts: pulumi.ResourceOptions
    ) -> None:
        """Register the Service for gRPC of one version of a model, and its policies."""
        namespace = self.args["namespace"]
        made = register(name, gateway_routes.grpc_service(model, namespace, port), opts)
        after = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[made]))
        for obj in gateway_routes.policies(
            gateway_routes.grpc_name(model.pool_name),
            namespace,
            api("service"),
            health_path="",
            port=port,
            timeout_seconds=model.timeout_seconds,
            is_grpc=True,
            **self._edge,
        ):
            register(f"{name}-{role_of(obj)}", obj, self._guarded(after))

    def _guarded(self, opts: pulumi.ResourceOptions) -> pulumi.ResourceOptions:
        """Return the options of backend policies, which go before the Cloud Armor policy."""
        needed: list[pulumi.Resource] = [] if self.guard is None else [self.guard]
        return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=needed))

    @property
    def _flow(self) -> FlowControl | None:
        seconds = self.args.get("fairness_wait_seconds")
        if seconds is None:
            return None
        pickers = self.args.get("pickers", {})
        orders = pickers.get("orders_sessions", False)
        return FlowControl(int(seconds), pickers.get("max_queued"), orders)

    @property
    def _edge(self) -> dict[str, Any]:
        """Settings that all backend policies share."""
        is_open = self.args["exposure"] is Exposure.EXTERNAL
        return {
            "log_percent": self.args.get("log_percent", LOG_PERCENT),
            "security_policy": self.args["gateway_name"] if is_open else None,
        }


def role_of(obj: Manifest) -> str:
    """Return the part of a child's name that identifies the kind of object."""
    return str(obj["kind"]).lower()
