"""A deployment: an engine's settings from flags, environment and hardware."""

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from gke_inference.sizing.architectures import find, longest_context
from gke_inference.sizing.default_batch import default_batch
from gke_inference.sizing.memory import (
    RUNTIME_MEMORY_GB,
    device_gib,
    kv_token_bytes,
    reserve_gib,
)
from gke_inference.sizing.shapes import ModelShape, shape_in, shape_of
from planner.fit.chips import HOST_NETWORKS, WORDS, Accelerator, HostNetwork, Link, accelerator
from planner.speed.links import ALLGATHER, BACKENDS
from planner.speed.roofline import ExpertGroup
from planner.speed.speculation import METHODS, MOST_TOKENS, Speculation, speculation
from simulator.engine import PREFIX
from simulator.engine.templates import NoTemplateError, read_template

_GIB = 2**30
_BLOCK_SIZE = {"gpu": 16, "tpu": 128, "cpu": 128}
_KV_BITS_8 = ("fp8", "int8")


class EngineError(Exception):
    """vLLM would not start; the message is vLLM's."""


@dataclass(frozen=True)
class Surroundings:
    """Settings from the container's host in `GKE_INFERENCE_SIM_*`."""

    accelerator: Accelerator
    chips: int
    address: str
    """Address of the pod, on which it listens."""
    pod: str
    speed: float
    """Speed of the startup relative to real hardware; traffic always runs in real time."""
    durations: Mapping[str, float]
    """Startup rules: seconds, and `weights_gb_per_second`; empty for an immediate start."""
    mounts: Mapping[str, Path]
    """Mount paths in the container, with the folders of the volumes."""

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Surroundings":
        """Read the environment; by default, an engine on a CPU at 127.0.0.1 starts at once."""
        mounts: dict[str, str] = json.loads(environment.get(PREFIX + "MOUNTS", "{}"))
        return cls(
            accelerator=accelerator(environment.get(PREFIX + "ACCELERATOR", "cpu")),
            chips=int(environment.get(PREFIX + "CHIPS", "1")),
            address=environment.get(PREFIX + "POD_IP", "127.0.0.1"),
            pod=environment.get(PREFIX + "POD", ""),
            speed=float(environment.get(PREFIX + "SPEED", "1")),
            durations=json.loads(environment.get(PREFIX + "DURATIONS", "{}")),
            mounts={path: Path(folder) for path, folder in mounts.items()},
            network=environment.get(PREFIX + "NETWORK", "tcp"),
            collector=environment.get(PREFIX + "COLLECTOR", ""),
            share_mib_per_s=float(environment.get(PREFIX + "SHARE_MIB_PER_S", "0")) or None,
            link=_link(environment),
            hash_seed=environment.get("PYTHONHASHSEED"),
            read_only=tuple(json.loads(environment.get(PREFIX + "READ_ONLY", "[]"))),
        )

    hash_seed: str | None = None
    """Seed of block hashes that engines agree on, or None for the default of their algorithm."""
    network: str = "tcp"
    """`rdma` where the pod has claimed its node's RDMA interfaces, `tcpx` or `tcpxo` where its
    daemon drives such interfaces of the node."""
    link: Link | None = None
    """What connects the chips of the machine; None: the link of the accelerator's own machines."""
    collector: str = ""
    """Host and port of the collector in the flags; empty if there is none."""
    read_only: tuple[str, ...] = ()
    """Read-only mount paths."""
    share_mib_per_s: float | None = None
    """Bandwidth that this engine has of the mounted share; by default, a small Filestore share."""

    @property
    def host_network(self) -> HostNetwork:
        """What connects the engine to those on other hosts."""
        return HOST_NETWORKS[self.network]

    def is_writable(self, path: str) -> bool:
        """Return whether a path of the container is on a writable volume."""
        inside = [
            mount for mount in self.mounts if (path + "/").startswith(mount.rstrip("/") + "/")
        ]
        return bool(inside) and max(inside, key=len) not in self.read_only

    def host_path(self, path: str) -> Path | None:
        """Return the folder of a path in the container, or None if no volume is mounted."""
        for mount in sorted(self.mounts, key=len, reverse=True):
            if path == mount or path.startswith(mount.rstrip("/") + "/"):
                return self.mounts[mount] / path[len(mount) :].lstrip("/")
        return None


@dataclass(frozen=True)
class Deployment:
    """The fixed settings of an engine."""

    flags: argparse.Namespace
    surroundings: Surroundings
    shape: ModelShape
    served_names: tuple[str, ...]
    max_model_len: int
    max_sequences: int
    max_batched_tokens: int
    block_size: int
    kv_bits: int
    kv_blocks: int
    devices: int
    experts: ExpertGroup | None = None
    """Devices of all hosts with expert parallelism; `devices` are then those of one host."""
    speculation: Speculation | None = None
    """Speculative decoding, or None without it or with a method whose speed is not modeled."""
    adapters: Mapping[str, str] = field(default_factory=dict[str, str])
    """LoRA adapters at startup: name to path."""
    runtime_lora: bool = False
    chat_template: str | None = None
    """Template of `--chat-template`; None: that of the weights."""
    program: str = "vLLM"
    """Title of the server whose settings these are, as in the catalog of engines."""
    step_factor: float = 1.0
    """Measured time of a step over the modeled one (`gke-inference calibrate`)."""

    @property
    def model(self) -> str:
        """Model name in the flags."""
        return str(self.flags.model)

    @property
    def chips(self) -> int:
        """Number of chips of the model."""
        return max(1, self.devices // self.surroundings.accelerator.devices_per_chip)

    @property
    def pooling(self) -> bool:
        """Whether responses are vectors."""
        return self.flags.runner == "pooling" or (
            self.flags.runner in (None, "auto") and self.shape.embedding
        )


def deploy(flags: argparse.Namespace, environment: Mapping[str, str]) -> Deployment:
    """Return the deployment.

    Raises:
        EngineError: vLLM would not start, for example because the model does not fit.
    """
    surroundings = Surroundings.of(environment)
    if flags.model is None:
        raise EngineError("the following arguments are required: model_tag")
    _check_port(environment.get("VLLM_PORT"))
    shape = _shape(flags, surroundings)
    folder = surroundings.host_path(flags.model)
    if folder is None or shape_in(folder, flags.model) is None:
        _check_positions(flags, environment)
    experts = _experts(flags, shape)
    devices = _devices(flags, surroundings, experts)
    kv_bits = 8 if str(flags.kv_cache_dtype or "auto").startswith(_KV_BITS_8) else 16
    max_model_len = flags.max_model_len or shape.context
    block_size = flags.block_size or _BLOCK_SIZE[surroundings.accelerator.kind]
    longest = max_model_len if max_model_len > 0 else shape.context
    tokens, sequences = _batch(flags, surroundings.accelerator, longest)
    chip = surroundings.accelerator
    reserve = reserve_bytes(chip, shape, tokens) * devices
    kv_bytes = _kv_bytes(flags, chip, weights_gb(shape, experts), devices, reserve)
    per_token = kv_token_bytes(shape, kv_bits)
    if max_model_len < 0:
        max_model_len = min(shape.context, kv_bytes // per_token)
    _check_length(max_model_len, per_token, kv_bytes)
    try:
        chat_template = read_template(flags.chat_template, surroundings.host_path)
    except NoTemplateError as error:
        raise EngineError(f"vllm.exceptions.VLLMValidationError: {error}") from error
    return Deployment(
        flags=flags,
        chat_template=chat_template,
        surroundings=surroundings,
        shape=shape,
        served_names=tuple(flags.served_model_name or [flags.model]),
        max_model_len=max_model_len,
        max_sequences=sequences,
        max_batched_tokens=tokens,
        block_size=block_size,
        kv_bits=kv_bits,
        kv_blocks=flags.num_gpu_blocks_override or kv_bytes // (per_token * block_size),
        devices=devices,
        experts=experts,
        speculation=_speculation(flags),
        adapters=_adapters(flags),
        runtime_lora=environment.get("VLLM_ALLOW_RUNTIME_LORA_UPDATING", "").lower()
        in ("1", "true"),
    )


def _link(environment: Mapping[str, str]) -> Link | None:
    """Return the link between the chips of the machine, or None if the environment has none."""
    given = environment.get(PREFIX + "LINK")
    if given is None:
        return None
    return Link(**json.loads(given))


def _check_port(port: str | None) -> None:
    """Refuse a port that is no number, as get_vllm_port of vLLM's envs.py does."""
    try:
        int(port or "0")
    except ValueError:
        if "://" in str(port):
            raise EngineError(
                f"ValueError: VLLM_PORT '{port}' appears to be a URI. This may be caused by a "
                "Kubernetes service discovery issue,check the warning in: "
                "https://docs.vllm.ai/en/stable/serving/env_vars.html"
            ) from None
        raise EngineError(f"ValueError: VLLM_PORT '{port}' must be a valid integer") from None


def _check_positions(flags: argparse.Namespace, environment: Mapping[str, str]) -> None:
    """Refuse a context beyond the model's, as _get_and_verify_max_len of config/model.py does."""
    name = (flags.served_model_name or [flags.model])[0]
    known, given = longest_context(flags.model, name), flags.max_model_len or 0
    is_allowed = environment.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "").lower() in ("1", "true")
    if known is None or given <= known[1] or is_allowed:
        return
    if not flags.hf_overrides and not flags.hf_config_path:
        raise EngineError(
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
            f"  Value error, User-specified max_model_len ({given}) is greater than the derived "
            f"max_model_len (max_position_embeddings={float(known[1])} or model_max_length=None in "
            "model's config.json). To allow overriding this maximum, set the env var "
            "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1. VLLM_ALLOW_LONG_MAX_MODEL_LEN must be used with "
            "extreme caution. If the model uses relative position encoding (RoPE), positions "
            "exceeding derived_max_model_len lead to nan. If the model uses absolute position "
            "encoding, positions exceeding derived_max_model_len will cause a CUDA array "
            "out-of-bounds error."
        )


def _shape(flags: argparse.Namespace, surroundings: Surroundings) -> ModelShape:
    """Return the shape of the model from its path, or else from a served name."""
    folder = surroundings.host_path(flags.model)
    names: list[str] = [flags.model, *(flags.served_model_name or [])]
    problems: list[ValueError] = []
    for name in names:
        try:
            found = shape_in(folder, name, flags.quantization) if folder else None
            return found or shape_of(name, flags.quantization)
        except ValueError as error:
            problems.append(error)
    raise EngineError(f"ValueError: {problems[0]}")


def _experts(flags: argparse.Namespace, shape: ModelShape) -> ExpertGroup | None:
    """Return the devices of expert parallelism, or None without it.

    Raises:
        EngineError: the experts cannot be divided evenly.
    """
    if not flags.enable_expert_parallel or not shape.expert_billion:
        return None
    copies = int(flags.data_parallel_size or 1)
    devices = copies * int(flags.tensor_parallel_size or 1)
    config: dict[str, Any] = flags.eplb_config or {}
    redundant = int(config.get("num_redundant_experts", 0)) if flags.enable_eplb else 0
    if (shape.experts + redundant) % devices:
        raise EngineError(
            f"ValueError: Number of physical experts ({shape.experts + redundant}) must be "
            f"divisible by the expert parallel size ({devices})."
        )
    hosts = copies // int(flags.data_parallel_size_local or copies)
    backend = str(flags.all2all_backend or ALLGATHER)
    # other backends have no model: the one that sends most stands for them
    backend = backend if backend in BACKENDS else ALLGATHER
    return ExpertGroup(devices, hosts, copies, redundant, backend)


def _speculation(flags: argparse.Namespace) -> Speculation | None:
    """Return the speculative decoding of the flags; None where its speed is not modeled.

    Raises:
        EngineError: `--speculative-config` is not a JSON object, has no number of tokens or not a
            positive one, as in vLLM; or has more tokens than the model of speculation, which has
            a limit that vLLM does not have.
    """
    given: Any = flags.speculative_config
    if given is None:
        return None
    if not isinstance(given, dict):
        rule = "must be a JSON object"
        raise EngineError(f"--speculative-config: {rule}, got {json.dumps(given)}")
    config = cast("dict[str, Any]", given)
    method = str(config.get("method", ""))
    if method not in METHODS:
        return None
    names: list[str] = [flags.model, *(flags.served_model_name or [])]
    known = next((found for name in names if (found := find(name)) is not None), None)
    tokens: Any = config.get("num_speculative_tokens")
    if tokens is None and method == "mtp" and known is not None:
        tokens = known.mtp_layers or None  # n_predict of the draft's configuration
    return speculation(method, _draft_tokens(tokens), known.name if known else "")


def _draft_tokens(tokens: Any) -> int:
    """Return the number of draft tokens, if it can be modeled."""
    field = "num_speculative_tokens"
    if tokens is None:
        raise EngineError(
            f"ValueError: {field} must be provided with speculative model unless the draft model "
            "config contains an n_predict parameter."
        )
    if isinstance(tokens, bool) or not isinstance(tokens, int):
        given = json.dumps(tokens)
        raise EngineError(f"--speculative-config: {field} must be a whole number, got {given}")
    if tokens <= 0:
        raise EngineError(f"ValueError: Expected {field} to be greater than zero ({tokens}).")
    if tokens > MOST_TOKENS:
        raise EngineError(
            f"--speculative-config: {field} must be at most {MOST_TOKENS} in a simulated engine, "
            f"got {tokens}"
        )
    return tokens


def weights_gb(shape: ModelShape, experts: ExpertGroup | None) -> float:
    """Return the size of the weights that the devices of one host hold, in 10^9 bytes."""
    if experts is None:
        return shape.weights_gb
    own = shape.expert_billion * (shape.experts + experts.redundant)
    others = shape.parameters_billion - shape.expert_billion * shape.experts
    return (own + others * experts.copies) / experts.hosts * shape.bits / 8


def _devices(
    flags: argparse.Namespace, surroundings: Surroundings, experts: ExpertGroup | None
) -> int:
    """Return the devices of the engine on this host, or on all hosts of a split model."""
    world = (flags.tensor_parallel_size or 1) * (flags.pipeline_parallel_size or 1)
    if experts is not None:
        world = experts.devices // experts.hosts
    here = surroundings.chips * surroundings.accelerator.devices_per_chip
    if world > here * (flags.nnodes or 1) and flags.distributed_executor_backend != "ray":
        noun = "TPUs" if surroundings.accelerator.kind == "tpu" else "GPUs"
        raise EngineError(
            f"ValueError: World size ({world}) is larger than the number of available {noun} "
            f"({here}) in this node. If this is intentional and you are using:\n"
            "- ray, set '--distributed-executor-backend ray'.\n"
            "- multiprocessing, set '--nnodes' appropriately."
        )
    return world


def device_bytes(chip: Accelerator) -> float:
    """Return the memory of one device that a program may use."""
    word = WORDS.get(chip.name)
    return chip.memory_gb * 1e9 / chip.devices_per_chip if word is None else device_gib(word) * _GIB


def reserve_bytes(chip: Accelerator, shape: ModelShape, step_tokens: int) -> float:
    """Return the memory of one device for runtime, graphs and the activations of a step."""
    word = WORDS.get(chip.name)
    if word is None:
        return RUNTIME_MEMORY_GB[chip.kind] * 1e9 / chip.devices_per_chip
    return reserve_gib(word, shape, step_tokens) * _GIB


def _kv_bytes(
    flags: argparse.Namespace, chip: Accelerator, weights: float, devices: int, reserve: float
) -> int:
    """Return the memory for KV blocks on all devices.

    Args:
        flags: the engine's flags.
        chip: the accelerator.
        weights: size of the weights, in 10^9 bytes.
        devices: number of devices.
        reserve: bytes for runtime, graphs and activations on all devices.

    Raises:
        EngineError: the weights leave no memory.
    """
    if flags.kv_cache_memory_bytes:
        return int(flags.kv_cache_memory_bytes) * devices
    utilization = flags.gpu_memory_utilization or 0.92
    chips = max(1, devices // chip.devices_per_chip)
    total = device_bytes(chip) * devices / 1e9
    if weights > total:
        raise EngineError(
            f"torch.OutOfMemoryError: {chip.name} out of memory: the weights of {flags.model} take "
            f"{weights:.1f} GB, and {chips} chip(s) have {total:.1f} GB."
        )
    left = total * utilization - weights - reserve / 1e9
    if left <= 0:
        raise EngineError(
            "ValueError: No available memory for the cache blocks. Try increasing "
            "`gpu_memory_utilization` when initializing the engine."
        )
    return int(left * 1e9)


def _check_length(max_model_len: int, per_token: int, kv_bytes: int) -> None:
    needed = max_model_len * per_token
    if needed > kv_bytes:
        raise EngineError(
            "ValueError: To serve at least one request with the model's max seq len "
            f"({max_model_len}), ({needed / _GIB:.2f} GiB KV cache is needed, which is larger than "
            f"the available KV cache memory ({kv_bytes / _GIB:.2f} GiB). Based on the available "
            f"memory, the estimated maximum model length is {kv_bytes // per_token}. Try "
            "increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing "
            "the engine."
        )


def _batch(flags: argparse.Namespace, chip: Accelerator, longest: int) -> tuple[int, int]:
    """Return (tokens, sequences) of a step, given or by vLLM's defaults for an API server."""
    gib = chip.memory_gb * 1e9 / chip.devices_per_chip / _GIB
    tokens, _, sequences = default_batch(chip.name, gib)
    if flags.max_num_batched_tokens is not None:
        tokens = int(flags.max_num_batched_tokens)
    elif flags.enable_chunked_prefill is False:
        tokens = max(tokens, longest)
    most = int(flags.max_num_seqs or min(sequences, tokens))
    _check_batch(flags, tokens, most, longest)
    return tokens, most


def _check_batch(flags: argparse.Namespace, tokens: int, sequences: int, longest: int) -> None:
    """Refuse sizes of a step, as verify_max_model_len of config/scheduler.py does."""
    problem = ""
    if tokens < longest and flags.enable_chunked_prefill is False:
        problem = (
            f"max_num_batched_tokens ({tokens}) is smaller than max_model_len ({longest}). This "
            "effectively limits the maximum sequence length to max_num_batched_tokens and makes "
            "vLLM reject longer sequences. Please increase max_num_batched_tokens or decrease "
            "max_model_len."
        )
    elif tokens < sequences:
        problem = (
            f"max_num_batched_tokens ({tokens}) must be greater than or equal to max_num_seqs "
            f"({sequences})."
        )
    if problem:
        raise EngineError(
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for SchedulerConfig\n"
            f"  Value error, {problem}"
        )


def _adapters(flags: argparse.Namespace) -> dict[str, str]:
    """Read `--lora-modules`: `name=path`, or a JSON object with name and path."""
    out: dict[str, str] = {}
    modules: list[str] = flags.lora_modules or []
    for item in modules:
        if item.startswith("{"):
            entry: dict[str, Any] = json.loads(item)
            out[str(entry["name"])] = str(entry["path"])
        else:
            name, _, path = item.partition("=")
            out[name] = path
    if out and not flags.enable_lora:
        raise EngineError("ValueError: LoRA is not enabled. Use --enable-lora to enable LoRA.")
    return out
