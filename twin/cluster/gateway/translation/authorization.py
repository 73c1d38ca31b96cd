"""GCPAuthzPolicy: the requests that a Gateway rejects with 403.

A request passes if no DENY rule matches and, where the Gateway has an ALLOW or a DENY_BY_DEFAULT
policy, an ALLOW rule matches. A policy that the twin cannot evaluate closes its Gateway.
"""

from dataclasses import replace
from typing import Final

from twin.cluster.gateway.translation.cel import CelError, Expression, parse
from twin.cluster.gateway.translation.conditions import (
    Condition,
    Problem,
    StatusUpdate,
    ancestor_status,
)
from twin.cluster.gateway.translation.extensions import CLOSED
from twin.cluster.gateway.translation.gateways import GatewayParts
from twin.cluster.gateway.translation.model import (
    Authorization,
    AuthorizationRule,
    Operation,
    TextMatch,
)
from twin.cluster.gateway.translation.objects import (
    JsonObject,
    Key,
    Snapshot,
    items,
    key_of,
    mapping,
)
from twin.world.rules import all_rules

KIND: Final = "GCPAuthzPolicy"


def authorize(snapshot: Snapshot, gateways: dict[Key, GatewayParts]) -> list[StatusUpdate]:
    """Set the authorization of every Gateway, and return the status of every policy."""
    updates: list[StatusUpdate] = []
    counts: dict[Key, int] = {}
    policies = sorted(
        snapshot.all(KIND),
        key=lambda policy: (policy["metadata"].get("creationTimestamp", ""), key_of(policy)),
    )
    for policy in policies:
        namespace, _ = key = key_of(policy)
        ancestors: list[JsonObject] = []
        for ref in items(policy["spec"], "targetRefs"):
            if ref["kind"] != "Gateway":
                ancestors.append(_of_pods(namespace))
                continue
            at = (namespace, ref["name"])
            counts[at] = counts.get(at, 0) + 1
            condition = _attach(policy, gateways.get(at), counts[at])
            target = {"group": ref["group"], "kind": "Gateway", "name": ref["name"]}
            ancestors.append(ancestor_status({**target, "namespace": namespace}, [condition]))
        updates.append(StatusUpdate(KIND, key, {"ancestors": ancestors}))
    return updates


def _of_pods(namespace: str) -> JsonObject:
    """Return the entry of a policy for pods. Its target is a selector: it names the namespace."""
    message = str(all_rules()["gateway.authorization.pods"].value)
    condition = Condition("Accepted", False, "UnsupportedValue", message)
    return ancestor_status({"group": "", "kind": "Namespace", "name": namespace}, [condition])


def _attach(policy: JsonObject, gateway: GatewayParts | None, position: int) -> Condition:
    """Add a policy to a Gateway. Return its condition."""
    try:
        _check_target(policy, gateway, position)
    except Problem as problem:
        return problem.as_condition()
    if gateway is None:
        raise ValueError("a missing Gateway must be a problem")
    found = gateway.authorization or Authorization()
    try:
        gateway.authorization = _with(found, policy)
    except Problem as problem:
        gateway.authorization = replace(found, is_closed=True)
        return Condition("Accepted", False, problem.reason, problem.message + CLOSED)
    return Condition("Accepted", True, "Accepted", "the Gateway enforces this policy")


def _check_target(policy: JsonObject, gateway: GatewayParts | None, position: int) -> None:
    rules = all_rules()
    if gateway is None:
        text = "targetRef: must be a Gateway of the policy's namespace with a class of GKE's"
        raise Problem("TargetNotFound", text)
    used = gateway.obj["spec"]["gatewayClassName"]
    classes = list(rules["gateway.authorization.classes"].value)
    if used not in classes:
        text = f"gatewayClassName: must be one of {', '.join(classes)}, got {used}"
        raise Problem("Invalid", text)
    most = int(rules["gateway.authorization.most"].value)
    if position > most:
        raise Problem("Invalid", f"the Gateway must have at most {most} policies, got {position}")
    level = policy["spec"]["enforcementLevel"]
    if level != "L7":
        raise Problem("Invalid", f"enforcementLevel: must be L7 for a Gateway, got {level}")


def _with(found: Authorization, policy: JsonObject) -> Authorization:
    """Return the authorization of a Gateway with one more policy."""
    action = policy["spec"].get("action", "ALLOW")
    if action == "CUSTOM":
        text = "action CUSTOM: the twin does not have the kind GCPAuthzExtension"
        raise Problem("UnsupportedValue", text)
    if action == "DENY_BY_DEFAULT":
        return replace(found, has_allow=True)
    name = "/".join(key_of(policy))
    made = tuple(
        _rule(f"{name}/{number}", rule)
        for number, rule in enumerate(items(policy["spec"], "rules"))
    )
    if action == "DENY":
        return replace(found, deny=(*found.deny, *made))
    return replace(found, has_allow=True, allow=(*found.allow, *made))


def _rule(name: str, rule: JsonObject) -> AuthorizationRule:
    of, to = mapping(rule, "from"), mapping(rule, "to")
    for source in (*items(of, "sources"), *items(of, "notSources")):
        if source.get("resources"):
            text = "from.sources.resources: the twin has no client VMs with tags and accounts"
            raise Problem("UnsupportedValue", text)
    return AuthorizationRule(
        name=name,
        # The twin's Gateways request no client certificates, so nobody has a principal.
        needs_principal=bool(items(of, "sources")),
        operations=tuple(_operation(each) for each in items(to, "operations")),
        not_operations=tuple(_operation(each) for each in items(to, "notOperations")),
        condition=_condition(rule.get("when")),
    )


def _condition(text: str | None) -> Expression | None:
    if text is None:
        return None
    try:
        return parse(text)
    except CelError as error:
        raise Problem("UnsupportedValue", f"when: {error}") from error


def _operation(operation: JsonObject) -> Operation:
    return Operation(
        methods=tuple(operation.get("methods") or ()),
        hosts=tuple(_text(each) for each in items(operation, "hosts")),
        paths=tuple(_text(each) for each in items(operation, "paths")),
        headers=tuple(
            (str(each["name"]).lower(), _text(each)) for each in items(operation, "headers")
        ),
    )


def _text(match: JsonObject) -> TextMatch:
    return TextMatch(match["type"], match["value"], ignore_case=match.get("ignoreCase") is True)
