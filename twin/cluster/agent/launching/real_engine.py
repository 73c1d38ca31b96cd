"""The replica that runs the real vLLM instead of the simulated engine.

The twin's operator requests it with `gke-inference up --real-engine MODEL`. Stacks, components and
workloads do not mention it. The first replica of the model that starts becomes the real one. When
it is gone, the next replica that starts takes its place.
"""

import fcntl
import json
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twin.engines.real import arguments, install
from twin.host.paths import TwinPaths
from twin.wire.kube import JsonObject

_MODULE = "vllm.entrypoints.openai.api_server"
_RANK = 8


def ask_for(paths: TwinPaths, model: str | None) -> None:
    """Select the model, by a served name, whose next replica is real.

    Running pods do not change: the next replica of the model that starts is real.
    """
    if model is None:
        paths.real_engine_file.unlink(missing_ok=True)
        return
    file = paths.real_engine_file
    if file.exists() and json.loads(file.read_text())["model"] == model:
        return  # the replica that has the place keeps it
    file.write_text(json.dumps({"model": model}))


def is_chosen(root: Path, pod: JsonObject, argv: list[str]) -> bool:
    """Return whether a pod runs the real engine; it claims the place if it is free.

    Args:
        root: Folder of the twin.
        pod: Pod that starts or restarts.
        argv: Arguments of vLLM in the pod.
    """
    file = TwinPaths(root).real_engine_file
    if not file.exists():
        return False
    with file.open("r+") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)  # the agents of all clusters read it
        setting: dict[str, Any] = json.loads(stream.read())
        if setting["model"] not in arguments.served_names(argv):
            return False
        uid: str = pod["metadata"]["uid"]
        if setting.get("uid") != uid and _is_there(root, setting):
            return False
        stream.seek(0)
        stream.truncate()
        stream.write(json.dumps({**setting, "uid": uid, "pod": pod["metadata"]["name"]}))
    return True


def replica(paths: TwinPaths) -> str | None:
    """Return the name of the pod with the place of the real replica; None if it is free."""
    file = paths.real_engine_file
    if not file.exists():
        return None
    setting: dict[str, Any] = json.loads(file.read_text())
    return setting["pod"] if _is_there(paths.root, setting) else None


def _is_there(root: Path, setting: dict[str, Any]) -> bool:
    uid = setting.get("uid")
    return uid is not None and any(root.glob(f"clusters/*/pods/*/{uid}"))


def command(
    argv: list[str], own: Path, address: str, host_path: Callable[[str], Path | None]
) -> list[str]:
    """Return the command line of the real server.

    Args:
        argv: Arguments of vLLM in the container.
        own: Folder that is deleted with the pod.
        address: Address of the pod.
        host_path: Returns the folder for a path of the container, or None if nothing is mounted.

    Raises:
        twin.toolchain.ToolError: The real vLLM is not installed.
    """
    from twin.engines.real import tiny_model  # noqa: PLC0415 - loads NumPy, for most agents for nothing

    python = install.python()
    model = tiny_model.write_model(install.environment() / "models" / "tiny")
    rank = min(_RANK, arguments.largest_rank(argv))

    def adapter(name: str, path: str) -> Path:
        found = host_path(path)
        if found is not None and (found / "adapter_config.json").exists():
            return found
        folder = own / "adapters" / name  # the bucket has none: a tiny one stands in
        return tiny_model.write_adapter(folder, rank=rank, seed=zlib.crc32(name.encode()))

    adapted = arguments.adapt(argv, model=model, address=address, adapter=adapter)
    return [str(python), "-m", _MODULE, *adapted]


def environment(own: Path) -> dict[str, str]:
    """Return the variables of the real server in addition to the container's."""
    cache = install.environment() / "cache"  # compiled programs serve every start
    path = os.pathsep.join([str(install.environment() / "bin"), os.environ.get("PATH", "")])
    home = {"HOME": str(own), "HF_HOME": str(own / "huggingface"), "PATH": path}
    return {**arguments.ENVIRONMENT, **home, "VLLM_CACHE_ROOT": str(cache), "LD_LIBRARY_PATH": ""}
