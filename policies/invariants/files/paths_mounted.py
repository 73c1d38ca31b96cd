"""Folders that a server's variables and arguments name are on a mounted volume."""

import re
from collections.abc import Iterator

from policies.framework.finding import Finding, broken
from policies.framework.rule import Invariant
from policies.objects.engines import Engine, engine
from policies.objects.pods import Container
from policies.objects.world import World

_HOLDERS = re.compile(r"(^HOME|_CACHE|_DIR|_DIRECTORY|_FOLDER|_HOME|_PATH|_ROOT)$")
_SEARCHED = frozenset(["CPATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "PATH", "PYTHONPATH"])
# Folders that images contain, or that the kubelet, the driver or the kernel provide.
_OF_THE_IMAGE = re.compile(
    r"/(app|bin|dev|etc|home/kubernetes|lib|lib64|opt|proc|root|run|sbin|sys|tmp|usr|var|workspace)"
    r"(/|\Z)"
)
# A cache that is lost with the container is always a fault.
_CACHES = frozenset(["JAX_COMPILATION_CACHE_DIR", "VLLM_XLA_CACHE_PATH"])
_FLAGS = (
    "--model",
    "--model-path",
    "--model-id",
    "--tokenizer",
    "--download-dir",
    "--chat-template",
    "--config-file",
    "--load-parameters-path",
    "--model-repository",
)


def _check(world: World) -> Iterator[Finding]:
    for container in world.containers:
        server = engine(container)
        yield from _variables(container, serves=server is not None)
        yield from _arguments(container, server)


def _variables(container: Container, *, serves: bool) -> Iterator[Finding]:
    for name, value in container.environment.items():
        if name in _SEARCHED or not _HOLDERS.search(name) or not (value or "").startswith("/"):
            continue
        path = str(value)
        if name not in _CACHES and (_OF_THE_IMAGE.match(path) or not serves):
            continue
        if container.mount_of(path) is None:
            yield _missing(container, f"{container.path}.env[{name}]", path)


def _arguments(container: Container, server: Engine | None) -> Iterator[Finding]:
    paths = {flag: container.line.flag(flag) for flag in _FLAGS}
    if server is not None:
        paths |= {f"--lora-modules {name}": path for name, path in server.adapters.items()}
    for flag, path in paths.items():
        if path is None or not path.startswith("/") or _OF_THE_IMAGE.match(path):
            continue
        if container.mount_of(path) is None:
            yield _missing(container, f"{container.path}.args[{flag}]", path)


def _missing(container: Container, field: str, path: str) -> Finding:
    return broken(
        container.pod.obj,
        field,
        path,
        "no volume is mounted there: written files are lost with the container, and there "
        "is nothing to read",
        f"mount a volume that contains {path}",
    )


RULE = Invariant(
    name="paths-are-mounted",
    description="Every folder in a server's variables and arguments is on a mounted volume.",
    reference="accelerated-platforms online-inference base: VLLM_XLA_CACHE_PATH=/data, no volume",
    check=_check,
)
