"""The command line of the image server, `workloads/diffusion`."""

from .spec import Serving

COMMAND = ("python3", "-m", "diffusion", "serve")


def arguments(serving: Serving) -> list[str]:
    """Return the arguments behind `COMMAND`: a process, with a copy of the model, for each chip.

    What it compiles it keeps where JAX_COMPILATION_CACHE_DIR says.
    """
    args = [
        f"--model={serving.served_name}",
        f"--folder={serving.source}",
        f"--port={serving.port}",
        f"--workers={serving.tensor_parallel * serving.data_parallel}",
        f"--text-tokens={serving.context_tokens}",
        "--text-encoder-bits=8",  # or FLUX.1 and its encoder are more than a v6e holds
        f"--timeout-seconds={serving.longest_request_seconds}",
        f"--drain-seconds={serving.longest_request_seconds}",
        *(f"--size={size}" for size in serving.image_sizes),
        *(f"--adapter={name}={path}" for name, path in sorted(serving.adapters.items())),
    ]
    for flag, value in (
        ("--max-batch", serving.max_batch),
        ("--queue-limit", serving.image_queue),
        ("--steps", serving.image_steps),
    ):
        if value is not None:
            args.append(f"{flag}={value}")
    return args
