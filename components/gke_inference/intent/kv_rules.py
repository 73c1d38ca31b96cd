"""Rules against KV cache of other weights, adapters or layouts.

vLLM finds a block by its tokens and, for an adapter, by the adapter's name and path
(v1/core/kv_cache_utils.py). A tier that outlives what was computed with would return old blocks.
"""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import InputError
from gke_inference.intent.intent import ServingIntent
from gke_inference.intent.kv_offload import FIELD

_ALGORITHM = "prefix-caching-hash-algo"
_SHARED, _DISK = f"{FIELD}.shared_gib", f"{FIELD}.disk_gib"


def stale_problems(intent: ServingIntent) -> Iterator[InputError]:
    """Yield why a tier could return blocks that the model on its rungs would not compute."""
    offload = intent.kv_offload
    if offload is None:
        return
    if intent.live_adapters is not None:
        rule = "must not be set with live_adapters: an adapter that is uploaded again has the same"
        yield InputError(FIELD, f"{rule} path, by which its old blocks are found")
    elif intent.adapters:
        # a container that restarts keeps the files on the pod's disk, and reads the adapter again
        for path, gib in ((_DISK, offload.disk_gib), (_SHARED, offload.shared_gib)):
            if gib is not None:
                rule = "must not be set with adapters: blocks are found by the path of an adapter"
                yield InputError(path, f"{rule}, not by its content", gib)
    if offload.shared_gib is None:
        return
    if intent.weights_claim is not None and "@" not in intent.weights:
        rule = "must not be set with weights on a disk, unless 'weights' names their version"
        note = ": other weights on it would read the same blocks"
        yield InputError(_SHARED, rule, offload.shared_gib, note)
    algorithm = str(intent.engine_args.get(_ALGORITHM, ""))
    if algorithm.startswith("xxhash") and "PYTHONHASHSEED" not in intent.engine_env:
        # v1/core/kv_cache_utils.py: only SHA-256 has the same seed in all engines
        rule = "must be sha256 or sha256_cbor with kv_offload.shared, unless engine_env sets"
        note = ": each engine would have names of its own for blocks"
        yield InputError(f"engine_args.{_ALGORITHM}", f"{rule} PYTHONHASHSEED", algorithm, note)
    words = sorted({rung.accelerator for rung in intent.rungs.values() if rung.kind == "gpu"})
    if len(words) > 1:
        rule = "must not be set when the rungs have several accelerators"
        note = f": {', '.join(words)} may have different layouts of a block"
        yield InputError(_SHARED, rule, offload.shared_gib, note)
