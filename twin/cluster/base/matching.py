"""Label selectors and container ports, as every controller reads them. Pure."""

from collections.abc import Mapping
from typing import Final

from twin.cluster.base.fields import part, parts
from twin.wire.kube import JsonObject

Term = tuple[tuple[str, str, tuple[str, ...]], ...]
"""Requirements on labels, (key, operator, values), all of which must hold."""
ANYWHERE: Final[Term] = ()
"""The term that all labels match."""


def node_terms(selector: JsonObject) -> tuple[Term, ...]:
    """Return the terms of a node selector (`nodeSelectorTerms`); a node must match any of them."""
    return tuple(
        tuple(
            (str(e["key"]), str(e["operator"]), tuple(map(str, e.get("values") or ())))
            for e in parts(term, "matchExpressions")
        )
        for term in parts(selector, "nodeSelectorTerms")
    )


def term_matches(term: Term, labels: Mapping[str, str]) -> bool:
    """Return whether labels meet all requirements of a term."""
    return all(expression_holds(key, operator, values, labels) for key, operator, values in term)


def selects(selector: JsonObject, labels: Mapping[str, str]) -> bool:
    """Return whether a selector with `matchLabels` and `matchExpressions` matches some labels.

    Raises:
        ValueError: an operator is not one of Kubernetes'.
    """
    wanted: dict[str, str] = part(selector, "matchLabels")
    return wanted.items() <= labels.items() and all(
        expression_holds(
            item["key"], item["operator"], tuple(map(str, item.get("values") or ())), labels
        )
        for item in parts(selector, "matchExpressions")
    )


def expression_holds(
    key: str, operator: str, values: tuple[str, ...], labels: Mapping[str, str]
) -> bool:
    """Return whether a requirement holds; `Gt` and `Lt` have their node affinity meaning.

    Raises:
        ValueError: the operator is not one of Kubernetes'.
    """
    held = labels.get(key)
    match operator:
        case "In":
            return held in values
        case "NotIn":
            return held not in values
        case "Exists":
            return held is not None
        case "DoesNotExist":
            return held is None
        case "Gt":
            return held is not None and int(held) > int(values[0])
        case "Lt":
            return held is not None and int(held) < int(values[0])
        case _:
            raise ValueError(f"operator of a label selector: got {operator!r}")


def container_port(pod: JsonObject, port: int | str) -> int | None:
    """Return the number of a named container port of a pod; None if no container has it."""
    if isinstance(port, int):
        return port
    for container in parts(pod["spec"], "containers"):
        for entry in parts(container, "ports"):
            if entry.get("name") == port:
                return int(entry["containerPort"])
    return None
