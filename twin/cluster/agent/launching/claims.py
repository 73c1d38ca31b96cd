"""Which pods the node agent runs, and as what.

The rule is a function of the pod's specification and owner alone, and KWOK's stages carry the
same rule in jq (`JQ`), so that each pod has exactly one keeper and nothing has to be marked or
raced for.
"""

import enum
import re

from twin.wire.kube import JsonObject

_ENGINE = r"(^|/)([^/]*vllm|sglang|text-generation-inference|tgi-gpu|tritonserver|triton-gpu)[^/]*$"
_IMAGES = r"(^|/)diffusion[^/]*$"
_GUARD = r"(^|/)guardrails([:@][^/]*)?$"
_UPSTREAM = r"(^|/)(epp|bbr|lws|kueue|callout|relay)([:@][^/]*)?$"
_PD_PICKER = r"(^|/)llm-d-inference-scheduler([:@][^/]*)?$"
_SIDECAR = r"(^|/)llm-d-routing-sidecar([:@][^/]*)?$"
_OWN = r"(^|/)(batch|stream)([:@][^/]*)?$"
_BATCH_OWNER = "Job"
JQ = (
    f'select([.metadata.ownerReferences[]?.kind] | index("{_BATCH_OWNER}") | not) | '
    ".spec.containers[] | select((.image | "
    f'test("{_ENGINE}|{_IMAGES}|{_UPSTREAM}|{_GUARD}|{_PD_PICKER}|{_OWN}")) or '
    '(.name == "catalogue" and (.image | test("nginx"))) or '
    '(.name == "weights-gate" and (.image | test("python")))) | .name'
)
"""Yields the names of the containers that the agent runs, as KWOK's stages ask for them."""


class Kind(enum.StrEnum):
    """What becomes of a container on the twin."""

    ENGINE = "engine"
    """A simulated server: vLLM, SGLang, Triton with TensorRT-LLM or TGI."""
    IMAGES = "diffusion"
    """The image server, with a simulated or the real pipeline."""
    PICKER = "epp"
    """The real endpoint picker."""
    PD_PICKER = "pd-epp"
    """The real endpoint picker with the plugins of prefill/decode disaggregation."""
    SIDECAR = "routing-sidecar"
    """A small program that keeps the protocol of llm-d's routing side-car."""
    ROUTER = "bbr"
    """The real body-based router."""
    CALLOUT = "callout"
    """The platform's own program that the gateway's traffic extension calls."""
    GUARD = "guardrails"
    """The platform's own guard of prompts and answers, with the real NeMo Guardrails."""
    RELAY = "relay"
    """The platform's own program that calls models which run elsewhere."""
    OPERATOR = "lws"
    """The real LeaderWorkerSet operator."""
    QUEUES = "kueue"
    """The real Kueue."""
    LOADER = "adapter-loader"
    """The program that its command holds: it loads adapters into the engine beside it."""
    CATALOGUE = "catalogue"
    """A static web server."""
    GATE = "weights-gate"
    """The program of the platform that starts models once their weights are there."""
    STREAM = "stream"
    """The platform's worker of a stream."""
    BATCH = "batch"
    """The platform's service of batches, or a worker of it."""
    IDLE = "idle"
    """Nothing runs; it counts as running and ready."""


def kind_of(container: JsonObject) -> Kind:
    """Return what becomes of a container."""
    image = str(container.get("image", ""))
    if re.search(_ENGINE, image):
        # the loader runs in the image of the engine beside it
        return Kind.LOADER if container["name"] == Kind.LOADER else Kind.ENGINE
    match = re.search(_UPSTREAM, image) or re.search(_OWN, image)
    if match:
        return Kind(match.group(2))
    others = {
        _IMAGES: Kind.IMAGES,
        _GUARD: Kind.GUARD,
        _PD_PICKER: Kind.PD_PICKER,
        _SIDECAR: Kind.SIDECAR,
    }
    for pattern, kind in others.items():
        if re.search(pattern, image):
            return kind
    if container["name"] == "catalogue" and "nginx" in image:
        return Kind.CATALOGUE
    if container["name"] == Kind.GATE and "python" in image:
        return Kind.GATE
    return Kind.IDLE


def sidecars(pod: JsonObject) -> list[JsonObject]:
    """Return the init containers that run beside the others and become processes."""
    init: list[JsonObject] = pod["spec"].get("initContainers", [])
    return [
        container
        for container in init
        if container.get("restartPolicy") == "Always" and kind_of(container) is not Kind.IDLE
    ]


def is_claimed(pod: JsonObject) -> bool:
    """Return whether the agent runs a pod: it has a container that becomes a process.

    A Job's pod is never one, whatever its image: what runs in it ends, where a server would not.
    """
    owners: list[JsonObject] = pod.get("metadata", {}).get("ownerReferences") or []
    if any(owner["kind"] == _BATCH_OWNER for owner in owners):
        return False
    return any(kind_of(container) is not Kind.IDLE for container in pod["spec"]["containers"])
