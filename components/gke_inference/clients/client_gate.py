"""Authentication and limits for the clients of a Gateway, checked on every request."""

import pulumi

from gke_inference.base.inputs import name_of, under, whole
from gke_inference.base.manifests import register
from gke_inference.gateway.checks import hops_of

from .callout import callout_objects, traffic_extension
from .program import document
from .settings import ClientGateArgs, checked
from .store import Store


class ClientGate(pulumi.ComponentResource):
    """Admits requests by key or token, model and limit, and records their usage.

    It rejects a request without a credential with 401, one for a model that its team may not use
    with 404, and one over a limit with 429, in OpenAI's error format. A request's priority is that
    of its team, regardless of its headers. While no replica is available, all requests are
    rejected.
    """

    extension_name: pulumi.Output[str]
    """Name of the GCPTrafficExtension, once it is active on the load balancer."""

    def __init__(
        self, name: str, args: ClientGateArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:ClientGate", name, {}, opts)
        gate = name_of(args, "gate_name", "namespace")
        namespace = name_of(args, "namespace", "namespace")
        checked(args)
        cache = args.get("cache")
        settings = pulumi.Output.all(
            args["keys"],
            _store(args.get("store"), args.get("store_certificates")),
            None if cache is None else _store(cache["store"], cache.get("store_certificates")),
        ).apply(lambda known: document(args, *known))
        replicas = whole(args, "replicas", 2, least=1, most=20)
        account, hops = args["service_account"], hops_of(args)
        objects = callout_objects(gate, namespace, account, replicas, hops, settings)
        made: list[pulumi.Resource] = []
        for role, obj in objects.items():
            logical = name if role == "deployment" else f"{name}-{role}"
            made.append(register(logical, obj, under(self, depends_on=list(made))))
        extension = register(
            f"{name}-extension",
            traffic_extension(
                gate,
                namespace,
                args["gateway_name"],
                args.get("armor", []),
                has_batches=args.get("batches", False),
            ),
            under(self, depends_on=made),
        )
        self.extension_name = extension.urn.apply(lambda _: gate)
        self.register_outputs({"extensionName": self.extension_name})


def _store(
    address: pulumi.Input[str] | None, certificates: pulumi.Input[str] | None
) -> pulumi.Output[Store] | None:
    if address is None:
        return None
    return pulumi.Output.all(address, certificates).apply(lambda known: Store(*known))
