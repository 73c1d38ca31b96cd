"""The pods that the node agent runs, and the kind of process for each container.

The decision depends only on the pod's specification and owner. KWOK's stages contain the same rule
in jq (`JQ`), so each pod has exactly one manager, without labels or races.
"""

import enum
import re

from twin.wire.kube import JsonObject

_ENGINE = r"(^|/)([^/]*vllm|sglang|text-generation-inference|tgi-gpu|tritonserver|triton-gpu)[^/]*$"
_IMAGES = r"(^|/)diffusion[^/]*$"
_GUARD = r"(^|/)guardrails([:@][^/]*)?$"
_UPSTREAM = r"(^|/)(epp|body-router|lws|kueue|jobset|callout|relay)([:@][^/]*)?$"
_PD_PICKER = r"(^|/)llm-d-inference-scheduler([:@][^/]*)?$"
_LLM_D_ROUTER = r"(^|/)llm-d-router-endpoint-picker([:@][^/]*)?$"
_SIDECAR = r"(^|/)llm-d-routing-sidecar([:@][^/]*)?$"
_OWN = r"(^|/)(batch|personal|stream)([:@][^/]*)?$"
_OPTIMIZATION = r"(^|/)(evaluation|optimization)([:@][^/]*)?$"
_BATCH = r"(^|/)batch([:@][^/]*)?$"
_BATCH_OWNER = "Job"
_TRAIN = "train"
_WEIGHTS = "loader"
_SET_LABEL = "jobset.sigs.k8s.io/jobset-name"
_IS_BATCH = f'[.metadata.ownerReferences[]?.kind] | index("{_BATCH_OWNER}")'
JQ = (
    f"(select({_IS_BATCH}) | .spec.containers[] | "
    f'select(((.image | test("{_IMAGES}")) and ((.command // []) | index("{_TRAIN}"))) or '
    f'(.name == "{_WEIGHTS}" and (.image | test("python"))) or '
    f'(.image | test("{_BATCH}|{_OPTIMIZATION}"))) | .name), '
    f'(select(({_IS_BATCH}) and (.metadata.labels["{_SET_LABEL}"] != null)) | .spec.containers[] | '
    f'select(.image | test("{_ENGINE}")) | .name), '
    f"(select({_IS_BATCH} | not) | "
    ".spec.containers[] | select((.image | "
    f'test("{_ENGINE}|{_IMAGES}|{_UPSTREAM}|{_GUARD}|{_PD_PICKER}|{_LLM_D_ROUTER}|{_OWN}")) or '
    '(.name == "catalogue" and (.image | test("nginx"))) or '
    '((.name == "cluster-kinds" or .name == "weights-gate" or .name == "ray-scaler") and '
    '(.image | test("python")))) | .name)'
)
"""Yield the names of the containers that the agent runs, as KWOK's stages ask for them."""


class Kind(enum.StrEnum):
    """Kind of process that a container becomes on the twin."""

    ENGINE = "engine"
    """A simulated server: vLLM, SGLang, Triton with TensorRT-LLM or TGI."""
    IMAGES = "diffusion"
    """The image server, with a simulated or the real pipeline."""
    PICKER = "epp"
    """The real endpoint picker."""
    PD_PICKER = "pd-epp"
    """The real endpoint picker with the plugins of prefill/decode disaggregation."""
    LLM_D_ROUTER = "llm-d-router"
    """The picker of llm-d-router, or one that stands for it (twin/tools/llm-d-router)."""
    SIDECAR = "routing-sidecar"
    """A small program that implements the protocol of llm-d's routing sidecar."""
    ROUTER = "body-router"
    """The platform's body router, which the gateway's routing extension calls."""
    CALLOUT = "callout"
    """The platform's callout, which the gateway's traffic extension calls."""
    GUARD = "guardrails"
    """The platform's guard for prompts and answers, with the real NeMo Guardrails."""
    RELAY = "relay"
    """The platform's relay, which calls models that run elsewhere."""
    OPERATOR = "lws"
    """The real LeaderWorkerSet operator."""
    QUEUES = "kueue"
    """The real Kueue."""
    JOB_SETS = "jobset"
    """The real JobSet operator."""
    LOADER = "adapter-loader"
    """The program in the container's command, which loads adapters into the engine beside it."""
    CATALOGUE = "catalogue"
    """A static web server."""
    GATE = "weights-gate"
    """The platform's weights gate, which starts models once their weights exist."""
    SCALER = "ray-scaler"
    """The platform's program that scales Ray clusters."""
    KINDS = "cluster-kinds"
    """The platform's program that waits until the cluster serves GKE's own kinds."""
    STREAM = "stream"
    """The platform's worker for a stream."""
    WEIGHTS = _WEIGHTS
    """The platform's job that transfers weights; it ends."""
    BATCH = "batch"
    """The platform's batch service, or one of its workers."""
    PERSONAL = "personal"
    """A worker of personalized images."""
    TRAINER = "trainer"
    """A training run of the image server's image, which ends."""
    EVALUATION = "evaluation"
    """A job that compares two models, with the real evaluation harness."""
    OPTIMIZATION = "optimization"
    """A job that quantizes a model or trains an adapter, with the real libraries."""
    IDLE = "idle"
    """No process; the container counts as running and ready."""


_ENDING = {Kind.BATCH, Kind.EVALUATION, Kind.OPTIMIZATION, Kind.TRAINER, Kind.WEIGHTS}
"""Kinds of the pods of Jobs that the agent runs."""


def kind_of(container: JsonObject) -> Kind:
    """Return the kind of a container."""
    image = str(container.get("image", ""))
    if re.search(_ENGINE, image):
        # the loader runs in the image of the engine beside it
        return Kind.LOADER if container["name"] == Kind.LOADER else Kind.ENGINE
    patterns = (_UPSTREAM, _OWN, _OPTIMIZATION)
    match = next((found for each in patterns if (found := re.search(each, image))), None)
    if match:
        return Kind(match.group(2))
    others = {
        _IMAGES: Kind.IMAGES,
        _GUARD: Kind.GUARD,
        _PD_PICKER: Kind.PD_PICKER,
        _LLM_D_ROUTER: Kind.LLM_D_ROUTER,
        _SIDECAR: Kind.SIDECAR,
    }
    for pattern, kind in others.items():
        if re.search(pattern, image):
            is_run = kind is Kind.IMAGES and _TRAIN in (container.get("command") or [])
            return Kind.TRAINER if is_run else kind
    if container["name"] == "catalogue" and "nginx" in image:
        return Kind.CATALOGUE
    if (
        container["name"] in (Kind.GATE, Kind.KINDS, Kind.SCALER, Kind.WEIGHTS)
        and "python" in image
    ):
        return Kind(container["name"])
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
    """Return whether the agent runs a pod, because one of its containers becomes a process.

    Of the pods of Jobs, the agent runs only those of the platform's programs that end, because
    servers do not. A set of jobs ends its servers itself.
    """
    owners: list[JsonObject] = pod.get("metadata", {}).get("ownerReferences") or []
    kinds = {kind_of(container) for container in pod["spec"]["containers"]}
    if any(owner["kind"] == _BATCH_OWNER for owner in owners):
        is_of_set = _SET_LABEL in (pod["metadata"].get("labels") or {})
        return bool(kinds & _ENDING) or (is_of_set and Kind.ENGINE in kinds)
    return bool(kinds - {Kind.IDLE, Kind.WEIGHTS})
