"""Apigee in place of a client gate: who may call the models, with which request quotas.

The objects are those of the Apigee Operator for Kubernetes
(docs.cloud.google.com/apigee/docs/api-platform/apigee-kubernetes).
"""

from typing import Annotated, Final, NotRequired, TypedDict

import pulumi
from pydantic import Field

from gke_inference.base.checked import checked
from gke_inference.base.manifests import Manifest, labels_for, manifest, register
from gke_inference.catalogue.load_balancing import CATALOGUE_PATH, HEALTH_PATH
from gke_inference.catalogue.versions import api
from gke_inference.gateway.routes import PATHS_BY_TASK
from gke_inference.guardrails.armor_calls import EVENTS

from .settings import APIGEE_TIMEOUT_MS, ApigeeProduct, ApigeeTimeoutMs

COMPONENT: Final = "apigee"
"""Value of `app.kubernetes.io/component` on its objects."""


class ApigeeGateArgs(TypedDict):
    """Inputs of `ApigeeGate`."""

    environment: str
    """Apigee environment, attached to an instance in the region of the Gateway."""
    gate_name: str
    """Name of the objects, and of the proxy that the operator creates. It must be unique in the
    Apigee organization."""
    gateway_name: str
    """Gateway that calls Apigee, in the same namespace. It must have no other traffic extension."""
    location: str
    """Region of the Gateway."""
    namespace: str
    """Namespace of the Gateway."""
    network: pulumi.Input[str]
    """`projects/P/global/networks/NAME` of the Gateway."""
    products: Annotated[dict[str, ApigeeProduct], Field(min_length=1)]
    """API products by name. Their names must be unique in the Apigee organization."""
    subnetwork: pulumi.Input[str]
    """`projects/P/regions/R/subnetworks/NAME`, in which the connection to Apigee gets an
    address."""
    proxy: NotRequired[str]
    """Deployed API proxy with an extension processor and policies of your own, such as
    LLMTokenQuota. Default: the proxy that the operator creates, named like the objects."""
    timeout_ms: NotRequired[ApigeeTimeoutMs]
    """Timeout per message in milliseconds. Default: 1000."""


class ApigeeGate(pulumi.ComponentResource):
    """Checks the API key and the quota of every request to a Gateway, in Apigee.

    Requests are rejected while Apigee does not answer. Prerequisites: an Apigee organization with
    the environment, and the Apigee Operator for Kubernetes in the cluster, which has the kinds of
    these objects.
    """

    product_names: pulumi.Output[list[str]]
    """Names of the API products."""

    def __init__(
        self, name: str, args: ApigeeGateArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:ApigeeGate", name, {}, opts)
        args = checked(ApigeeGateArgs, args)
        children = pulumi.ResourceOptions(parent=self)
        backend = register(f"{name}-backend", apigee_backend(args), children)
        behind = pulumi.ResourceOptions(parent=self, depends_on=[backend])
        register(f"{name}-extension", apigee_extension(args), behind)
        for title, product in args["products"].items():
            made = register(f"{name}-{title}-product", api_product(title, product, args), behind)
            after = pulumi.ResourceOptions(parent=self, depends_on=[made])
            register(f"{name}-{title}-operations", api_operations(title, product, args), after)
        self.product_names = pulumi.Output.from_input(list(args["products"]))
        self.register_outputs({"productNames": self.product_names})


def apigee_backend(args: ApigeeGateArgs) -> Manifest:
    """Return the ApigeeBackendService, from which the operator makes a connection and a proxy."""
    place = {
        "name": args["location"],
        "network": args["network"],
        "subnetwork": args["subnetwork"],
    }
    return manifest(
        "apigee_backend",
        args["gate_name"],
        args["namespace"],
        labels=labels_for(args["gate_name"], COMPONENT),
        spec={
            "apigeeEnv": args["environment"],
            # the operator's proxy verifies keys and enforces the quotas of products
            "defaultSecurityEnabled": True,
            "locations": [place],
        },
    )


def apigee_extension(args: ApigeeGateArgs) -> Manifest:
    """Return the GCPTrafficExtension that calls Apigee for every request and answer.

    Apigee knows no path without a key, so it does not see probes.
    """
    condition = {"celExpressions": [{"celMatcher": f"!(request.path == '{HEALTH_PATH}')"}]}
    called = {
        "backendRef": api("apigee_backend").reference(args["gate_name"]),
        "failOpen": False,
        "metadata": {
            "apigee-extension-processor": args.get("proxy") or args["gate_name"],
            "apigee-request-body": "true",
            "apigee-response-body": "true",
        },
        "name": COMPONENT,
        "requestBodySendMode": "FullDuplexStreamed",
        "responseBodySendMode": "FullDuplexStreamed",
        "supportedEvents": list(EVENTS),
        "timeout": f"{args.get('timeout_ms', APIGEE_TIMEOUT_MS)}ms",
    }
    return manifest(
        "gateway_traffic_extension",
        args["gate_name"],
        args["namespace"],
        labels=labels_for(args["gate_name"], COMPONENT),
        spec={
            "extensionChains": [
                {"extensions": [called], "matchCondition": condition, "name": COMPONENT}
            ],
            "targetRefs": [api("gateway").reference(args["gateway_name"])],
        },
    )


def api_product(title: str, product: ApigeeProduct, args: ApigeeGateArgs) -> Manifest:
    """Return an APIProduct, to which developers subscribe their apps in Apigee."""
    gate = api("apigee_backend").reference(args["gate_name"], namespace=args["namespace"])
    return manifest(
        "api_product",
        title,
        args["namespace"],
        labels=labels_for(title, COMPONENT),
        spec={
            "approvalType": "manual" if product.needs_approval else "auto",
            "attributes": [{"name": "access", "value": "private"}],
            "description": f"Models of {args['gateway_name']}",
            "displayName": title,
            "enforcementRefs": [gate],
            "name": title,
        },
    )


def api_operations(title: str, product: ApigeeProduct, args: ApigeeGateArgs) -> Manifest:
    """Return the APIOperationSet of a product: its paths, and the requests of each app."""
    tasks = PATHS_BY_TASK if product.tasks is None else product.tasks
    paths = [
        *((path, "POST") for task in tasks for path in PATHS_BY_TASK[task]),
        (CATALOGUE_PATH, "GET"),
    ]
    return manifest(
        "api_operation_set",
        title,
        args["namespace"],
        labels=labels_for(title, COMPONENT),
        spec={
            "apiProductRefs": [api("api_product").reference(title, namespace=args["namespace"])],
            "quota": {
                "interval": product.interval,
                "limit": product.requests,
                "timeUnit": product.time_unit.value,
            },
            "restOperations": [
                {"methods": [method], "name": path.removeprefix("/v1/"), "path": path}
                for path, method in paths
            ],
        },
    )
