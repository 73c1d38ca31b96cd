"""The command line of the image server, `workloads/diffusion`."""

import json

from .spec import ImageModel, Serving

COMMAND = ("python3", "-m", "diffusion", "serve")
TEXT_ENCODER_BITS = 8
"""Bits of the long text encoder's weights: otherwise, FLUX.1 and its encoder do not fit a v6e."""


def arguments(serving: Serving) -> list[str]:
    """Return the arguments after `COMMAND`: one process, with copies of its models, for each chip.

    The server caches compiled programs in JAX_COMPILATION_CACHE_DIR.
    """
    workers = serving.tensor_parallel * serving.data_parallel
    further = sum(model.chips or 0 for model in serving.image_models.values())
    args = [
        f"--model={serving.served_name}",
        f"--folder={serving.source}",
        f"--port={serving.port}",
        f"--workers={workers}",
        f"--text-tokens={serving.context_tokens}",
        f"--text-encoder-bits={TEXT_ENCODER_BITS}",
        f"--timeout-seconds={serving.longest_request_seconds}",
        f"--drain-seconds={serving.longest_request_seconds}",
        *(f"--size={size}" for size in serving.image_sizes),
        *(f"--frames={frames}" for frames in serving.video_frames),
        *(f"--sigma={sigma:g}" for sigma in serving.image_sigmas),
        *_live(serving),
        *(_base(name, model) for name, model in sorted(serving.image_models.items())),
        *(f"--adapter={name}={path}" for name, path in sorted(serving.adapters.items())),
    ]
    for flag, value in (
        ("--chips", workers - further if further else None),
        ("--max-adapters", serving.image_adapters),
        ("--max-batch", serving.max_batch),
        ("--queue-limit", serving.image_queue),
        ("--max-edit-bytes", serving.image_body_bytes),
        ("--steps", serving.image_steps),
        ("--step-cache", serving.image_step_cache),
    ):
        if value is not None:
            args.append(f"{flag}={value}")
    return args


def _base(name: str, model: ImageModel) -> str:
    """Return the flag of a further model, a JSON object with the fields of the server's."""
    words = {
        "chips": model.chips,
        "folder": model.source,
        "model": name,
        "sigmas": list(model.sigmas),
        "steps": model.steps,
        "text_tokens": model.context_tokens,
    }
    given = {key: value for key, value in words.items() if value}
    return f"--base-model={json.dumps(given, separators=(',', ':'), sort_keys=True)}"


def _live(serving: Serving) -> list[str]:
    if serving.live_adapters is None:
        return []
    return [
        f"--live-adapters={serving.live_adapters}",
        f"--live-rank={serving.adapter_rank}",
        f"--adapter-slots={serving.adapter_slots}",
    ]
