"""Engine containers that are workers of a group, and their leaders."""

import re
from dataclasses import dataclass

from twin.cluster.agent.launching.environment import expand
from twin.engines.vllm_flags import DATA_PARALLEL_PORT, MASTER_PORT, RAY_PORT
from twin.wire.kube import JsonObject

_RAY = re.compile(r"\bray start\b.*--address[= ]\"?(?P<host>[^:\s\"]+):(?P<port>\d+)")
_SHELL_VARIABLE = re.compile(r"\$\{?(\w+)\}?")


@dataclass(frozen=True)
class Leader:
    """Leader that a worker joins."""

    name: str
    port: int = RAY_PORT


def leader_of(container: JsonObject, variables: dict[str, str]) -> Leader | None:
    """Return the leader that a worker joins, or None for a container that serves.

    A worker is one that joins a Ray cluster and starts no server, or a headless vLLM.
    """
    words = [*container.get("command", []), *container.get("args", [])]
    whole = [expand(word, variables) for word in words]
    if "--headless" in whole:
        flags = dict(word.split("=", 1) for word in whole if word.startswith("--") and "=" in word)
        if "--data-parallel-address" in flags:
            port = int(flags.get("--data-parallel-rpc-port", DATA_PARALLEL_PORT))
            return Leader(flags["--data-parallel-address"], port)
        port = int(flags.get("--master-port", MASTER_PORT))
        return Leader(flags.get("--master-addr", "127.0.0.1"), port)
    for word in whole:
        match = _RAY.search(word)
        if match and "vllm" not in word:
            host = _SHELL_VARIABLE.sub(lambda m: variables.get(m[1], ""), match["host"])
            return Leader(host, int(match["port"]))
    return None
