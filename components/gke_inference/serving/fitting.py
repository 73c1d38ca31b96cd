"""Whether the rungs of a model server hold its model."""

from collections.abc import Mapping
from typing import Any

from gke_inference.catalogue.rungs import Rung
from gke_inference.sizing.image_memory import check_copies_fit
from gke_inference.sizing.memory import check_fit, loaded, weights_gib


def check_rungs(args: Mapping[str, Any], task: str, rungs: list[Rung]) -> None:
    """Refuses rungs that do not hold the model.

    Args:
        args: Of a `ModelServer`.
        task: What it answers with.
        rungs: Where it may run.

    Raises:
        ValueError: One of them does not.
    """
    for rung in rungs:
        reason = _unfit(args, task, rung)
        if reason is not None:
            raise ValueError(f"rungs: must hold the model, which {reason}")


def _unfit(args: Mapping[str, Any], task: str, rung: Rung) -> str | None:
    billions, bits = float(args["parameters_billion"]), float(args.get("weight_bits", 16))
    if task == "image":
        return check_copies_fit(rung.accelerator, weights_gib(billions, bits))
    split = args.get("tensor_parallel")
    model = loaded(
        str(args["weights"]),
        str(args.get("served_name", args["model"])),
        parameters_billion=billions,
        bits=bits,
        context=int(args["context_tokens"]),
        kv_cache_dtype=args.get("kv_cache_dtype"),
    )
    return check_fit(rung, model, None if split is None else int(split))
