"""The settings of a simulated engine for a replica on a rung, from its rendered pod."""

import contextlib
import io
from argparse import Namespace
from dataclasses import replace

from gke_inference.catalogue.rungs import Rung
from infra.plan import ServedModel
from simulator.dialects import sglang_flags, tgi_flags
from simulator.engine.settings import PREFIX, Deployment, EngineError, deploy
from twin.cluster.agent.launching import engines, hardware
from twin.cluster.agent.launching.environment import ConfigError
from twin.engines import vllm_flags
from twin.wire.kube import JsonObject

GROUP = "LeaderWorkerSet"
_TEMPLATE = "--chat-template"


class NotSimulatedError(Exception):
    """No simulated engine runs a model; the message has the reason."""


def template_of(item: JsonObject) -> tuple[JsonObject, int]:
    """Return the template of a replica's first pod, and the number of its pods.

    Args:
        item: A Deployment or LeaderWorkerSet.
    """
    if item["kind"] != GROUP:
        return item["spec"]["template"], 1
    group: JsonObject = item["spec"]["leaderWorkerTemplate"]
    template: JsonObject = group.get("leaderTemplate") or group["workerTemplate"]
    return template, int(group.get("size") or 1)


def settings_of(
    served: ServedModel, rung: Rung, template: JsonObject, hosts: int = 1
) -> Deployment:
    """Return the settings of the engine that a pod starts on a rung.

    Args:
        served: The model.
        rung: Rung with the accelerators.
        template: Template of the replica's first pod.
        hosts: Pods of the replica.

    Raises:
        NotSimulatedError: No simulated engine runs it.
    """
    container = _engine_of(template, rung.kind)
    if container is None:
        raise NotSimulatedError(f"no container of an engine for {rung.label}")
    dialect = engines.dialect_of(container)
    variables = _of_group(hosts) | {
        str(each["name"]): str(each["value"])
        for each in container.get("env", ())
        if "value" in each
    }
    environment = {
        PREFIX + "ACCELERATOR": rung.gke_type,
        PREFIX + "CHIPS": str(rung.chips_per_node),
        **variables,
    }
    with contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            argv = _without_template(engines.arguments(container, variables, dialect))
            if dialect is engines.VLLM:
                return _without_adapters(deploy(vllm_flags.parse(argv), environment))
            if dialect.title == "SGLang":
                made = sglang_flags.settle(argv, environment).deployment
                return replace(made, program=dialect.title)
            if dialect.title == "Text Generation Inference":
                made = tgi_flags.settle(argv, environment).deployment
                return replace(made, program=dialect.title)
        except (EngineError, ConfigError, ValueError) as error:
            reason = " ".join(str(error).split())[:200]
        except SystemExit:
            reason = said.getvalue().strip().rpartition("\n")[2]
        else:
            reason = f"{dialect.title} reads its settings from a model repository"
    raise NotSimulatedError(f"the engine does not start on {rung.label}: {reason}")


def _of_group(hosts: int) -> dict[str, str]:
    """Return what the LeaderWorkerSet operator sets in the first pod of a group of hosts."""
    if hosts == 1:
        return {}
    return {
        "LWS_GROUP_SIZE": str(hosts), "LWS_WORKER_INDEX": "0", "LWS_LEADER_ADDRESS": "127.0.0.1",
    }  # fmt: skip


def _without_template(argv: list[str]) -> list[str]:
    """Return arguments without the chat template, a file in the pod: prompts come in tokens."""
    return [
        word
        for at, word in enumerate(argv)
        if not word.startswith(f"{_TEMPLATE}=") and _TEMPLATE not in argv[max(at - 1, 0) : at + 1]
    ]


def _without_adapters(made: Deployment) -> Deployment:
    """Return an engine for requests that name no adapter; its memory is that of the given one."""
    return replace(made, flags=Namespace(**{**vars(made.flags), "enable_lora": False}), adapters={})


def _engine_of(template: JsonObject, kind: str) -> JsonObject | None:
    """Return the container of a pod that runs an engine on a kind of accelerator."""
    containers: list[JsonObject] = template["spec"]["containers"]
    asking = [each for each in containers if hardware.requested(each) is not None]
    return next((each for each in asking or containers if hardware.made_for(each) == kind), None)
