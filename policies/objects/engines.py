"""Detects the engine in a container and parses its flags, for five engines."""

import re
from dataclasses import dataclass

from policies.objects.pods import Container, PodOf
from policies.objects.world import World

# Names in images and command lines, in search order.
_NAMES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("vllm", ("vllm",)),
    ("sglang", ("sglang",)),
    ("jetstream", ("jetstream", "maxengine", "maxtext")),
    ("tgi", ("text-generation-inference", "text-generation-launcher")),
    ("triton", ("tritonserver", "trtllm")),
)
_PORTS = {"vllm": 8000, "sglang": 30000, "jetstream": 9000, "tgi": 80, "triton": 8000}
_TENSOR = (
    "--tensor-parallel-size",
    "-tp",
    "--tp",
    "--tp-size",
    "--num-shard",
    "--ici-tensor-parallelism",
    "ici_tensor_parallelism",
    "--world-size",
)
_PIPELINE = ("--pipeline-parallel-size", "-pp", "--pp-size", "--pp")
_DATA = ("--data-parallel-size-local",)
_ALL_DATA = ("--data-parallel-size", "-dp", "--dp-size", "--dp")
_MODEL = (
    "--model",
    "--model-path",
    "--model-id",
    "--model-name",
    "model_name",
    "load_parameters_path",
    "--load-parameters-path",
)
_LENGTH = (
    "--max-model-len",
    "--context-length",
    "--max-total-tokens",
    "max_target_length",
    "--max-target-length",
)
_ENVIRONMENT = {"NUM_SHARD": "tensor", "TENSOR_PARALLEL_SIZE": "tensor", "MODEL_ID": "model"}


@dataclass(frozen=True)
class Engine:
    """A model server in a container."""

    kind: str
    """`vllm`, `sglang`, `jetstream`, `tgi` or `triton`."""
    container: Container

    @property
    def port(self) -> int:
        """Port of its HTTP server, by default the engine's own."""
        value = self.container.line.flag("--port", "--http-port")
        return int(value) if value and value.isdigit() else _PORTS[self.kind]

    @property
    def tensor(self) -> str | None:
        """Tensor parallelism as written, or None if not set."""
        return self._said(_TENSOR, "tensor")

    @property
    def pipeline(self) -> str | None:
        """Pipeline parallelism as written, or None if not set."""
        return self._said(_PIPELINE, "")

    @property
    def local_replicas(self) -> str | None:
        """Copies of the model on one node (data parallelism), or None if not set."""
        return self._said(_DATA, "")

    @property
    def replicas(self) -> str | None:
        """Copies of the model on all nodes (data parallelism), or None if not set."""
        return self._said(_ALL_DATA, "")

    @property
    def has_expert_parallelism(self) -> bool:
        """Whether the experts of a mixture are spread over the devices of all its copies."""
        return bool({"--enable-expert-parallel", "-ep"} & set(self.container.line.words))

    @property
    def model(self) -> str | None:
        """The model: a name, path or URL, or None if not set."""
        said = self._said(_MODEL, "model")
        words = self.container.line.words
        if said is None and "serve" in words[:-1]:
            said = words[words.index("serve") + 1]
        return said

    @property
    def served_names(self) -> list[str]:
        """Names that requests may use, adapters included. Empty if not known."""
        line = self.container.line
        names = line.values("--served-model-name") or ([self.model] if self.model else [])
        if self.kind == "sglang":  # an adapter name follows the model name
            return [*names, *(f"{name}:{each}" for name in names for each in self.adapters)]
        return [*names, *self.adapters]

    @property
    def adapters(self) -> dict[str, str]:
        """LoRA adapters loaded at startup: name to path."""
        found: dict[str, str] = {}
        line = self.container.line
        for value in (*line.values("--lora-modules"), *line.values("--lora-paths")):
            name, separator, path = value.partition("=")
            if separator:
                found[name] = path
        return found

    @property
    def context(self) -> str | None:
        """Maximum sequence length in tokens as written, or None if not set."""
        return self._said(_LENGTH, "")

    @property
    def version(self) -> tuple[int, ...] | None:
        """Release in the image tag, such as (0, 22, 0), or None if it has none."""
        tag = re.search(r":v?(\d+\.\d+(?:\.\d+)?)", self.container.image)
        return tuple(int(part) for part in tag[1].split(".")) if tag else None

    def _said(self, names: tuple[str, ...], variable: str) -> str | None:
        value = self.container.line.flag(*names)
        if value is None and variable:
            environment = self.container.environment
            for name, meaning in _ENVIRONMENT.items():
                if meaning == variable and name in environment:
                    return environment[name]
        return value or None


def engine(container: Container) -> Engine | None:
    """Return the model server in a container, or None if it runs something else.

    A container with an engine image and a custom command counts only if the command starts a server
    or names a model. Workers of a Ray cluster and sidecars do neither.
    """
    if container.is_init or container.line.has("--pool-name"):
        return None  # the latter is a picker, which names the engine's metrics
    words = container.line.text.lower()
    for kind, names in _NAMES:
        if not any(name in words or name in container.image.lower() for name in names):
            continue
        if _serves(words) or not container.body.get("command") or container.line.flag(*_MODEL):
            return Engine(kind, container)
    return None


_SERVERS = (
    "api_server",
    "vllm serve",
    "launch_server",
    "maxengine_server",
    "text-generation-launcher",
    "tritonserver",
    "trtllm-serve",
)


def _serves(words: str) -> bool:
    return any(name in words for name in _SERVERS)


def engines(world: World) -> list[Engine]:
    """Return every model server of a world."""
    found = (engine(container) for container in world.containers)
    return [each for each in found if each is not None]


def leads(pod: PodOf) -> bool:
    """Return whether a pod answers requests. Workers of a group with a leader do not."""
    if pod.obj.kind == "RayCluster":
        return pod.role == "leader"
    return not (
        pod.role == "worker"
        and pod.obj.at("spec", "leaderWorkerTemplate", "leaderTemplate") is not None
    )
