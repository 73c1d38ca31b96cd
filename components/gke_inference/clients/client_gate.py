"""Authentication and limits for the clients of a Gateway, checked on every request."""

from collections.abc import Iterator
from typing import Final

import pulumi

from gke_inference.base.checked import checked, keep
from gke_inference.base.inputs import name_of, under
from gke_inference.base.manifests import register
from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.load_balancing import CLIENT_OF_A_GATEWAY
from gke_inference.catalogue.problems import join, one_of, repeated
from gke_inference.clients.program import Store

from .callout import callout_objects, traffic_extension
from .certificates import check_networks
from .gate_inputs import ClientGateArgs
from .program import document
from .rules import (
    check_cached,
    check_identities,
    check_issuers,
    check_prices,
    check_team_of_people,
    check_when_spent,
)
from .settings import REPLICAS


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
        args = checked_gate(args)
        gate = name_of(args, "gate_name", "namespace")
        namespace = name_of(args, "namespace", "namespace")
        cache = args.get("cache")
        settings = pulumi.Output.all(
            args["keys"],
            _store(args.get("store"), args.get("store_certificates")),
            None if cache is None else _store(cache["store"], cache.get("store_certificates")),
        ).apply(lambda known: document(args, *known))
        replicas = args.get("replicas", REPLICAS)
        account = args["service_account"]
        hops = args.get("forwarded_hops", CLIENT_OF_A_GATEWAY)
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


_NO_GUARD: Final = "must be a name of guards"


def checked_gate(args: ClientGateArgs) -> ClientGateArgs:
    """Return the inputs with their types.

    Raises:
        pulumi.InputPropertiesError: A name, limit or price is wrong, or two do not go together.
    """
    found = checked(ClientGateArgs, args)
    keep(_problems(found))
    return found


def _problems(args: ClientGateArgs) -> Iterator[InputError]:
    teams = args["teams"]
    if not teams and not args.get("anonymous", False):
        yield InputError("teams", "must have one team or more, got none")
    yield from check_prices("", teams, args.get("prices", {}), args["models"])
    yield from check_cached("", teams, has_cache="cache" in args)
    yield from check_when_spent("", teams)
    for name, team in teams.items():
        if team.when_spent is None:
            continue
        replaced = args.get("replaced_models", {}).get(name, [])
        if not replaced:
            rule = "needs 'replaced_models' of the team: the models that it answers for"
            yield InputError(join("teams", name, "when_spent"), rule)
        if team.when_spent.model in replaced:
            rule = "must list other models than the one that answers for them"
            yield InputError(join("replaced_models", name), rule, team.when_spent.model)
    for name, paths in args.get("cache_salt_paths", {}).items():
        if wrong := [path for path in paths if not path.startswith("/v1/")]:
            path = join("cache_salt_paths", name)
            yield InputError(path, "must be paths that begin with /v1/", wrong[0])
    yield from repeated("session_headers", args.get("session_headers", []), "a header")
    yield from check_issuers("", args.get("issuers", []), teams)
    if "certificates" in args:
        yield from check_networks(args["certificates"])
        yield from check_identities("certificates.teams", args["certificates"]["teams"], teams)
    if "people" in args:
        yield from check_team_of_people("", args["people"]["team"], teams)
    users = {
        join("guarded_models", name): of for name, of in args.get("guarded_models", {}).items()
    }
    users |= {join("teams", name, "guardrails"): list(of.guardrails) for name, of in teams.items()}
    known = sorted(args.get("guards", {}))
    for where, names in users.items():
        for name in names:
            if name not in known:
                yield one_of(where, name, known) if known else InputError(where, _NO_GUARD, name)
