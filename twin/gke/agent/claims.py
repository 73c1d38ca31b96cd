"""Which pods the node agent runs, and as what.

The rule is a function of the pod's specification alone, and KWOK's stages carry the same rule in
jq (`JQ`), so that each pod has exactly one keeper and nothing has to be marked or raced for.
"""

import enum
import re

from twin.kube import JsonObject

_ENGINE = r"(^|/)[^/]*vllm[^/]*$"
_UPSTREAM = r"(^|/)(epp|bbr|lws)([:@][^/]*)?$"
JQ = (
    f'.spec.containers[] | select((.image | test("{_ENGINE}|{_UPSTREAM}")) or '
    '(.name == "catalogue" and (.image | test("nginx")))) | .name'
)
"""Yields the names of the containers that the agent runs, as KWOK's stages ask for them."""


class Kind(enum.StrEnum):
    """What becomes of a container on the twin."""

    ENGINE = "engine"
    """The simulated vLLM."""
    PICKER = "epp"
    """The real endpoint picker."""
    ROUTER = "bbr"
    """The real body-based router."""
    OPERATOR = "lws"
    """The real LeaderWorkerSet operator."""
    CATALOGUE = "catalogue"
    """A static web server."""
    IDLE = "idle"
    """Nothing runs; it counts as running and ready."""


def kind_of(container: JsonObject) -> Kind:
    """Return what becomes of a container."""
    image = str(container.get("image", ""))
    if re.search(_ENGINE, image):
        return Kind.ENGINE
    match = re.search(_UPSTREAM, image)
    if match:
        return Kind(match.group(2))
    if container["name"] == "catalogue" and "nginx" in image:
        return Kind.CATALOGUE
    return Kind.IDLE


def is_claimed(pod: JsonObject) -> bool:
    """Return whether the agent runs a pod: it has a container that becomes a process."""
    return any(kind_of(container) is not Kind.IDLE for container in pod["spec"]["containers"])
