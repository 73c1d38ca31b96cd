"""Rules against KV cache of other weights, adapters or layouts.

vLLM finds a block by its tokens and, for an adapter, by the adapter's name and path
(v1/core/kv_cache_utils.py). A tier that outlives what was computed with would return old blocks.
"""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import InputError
from gke_inference.intent.intent import ServingIntent
from gke_inference.intent.kv_offload import FIELD

_ALGORITHM = "prefix-caching-hash-algo"
_SHARED, _DISK = f"{FIELD}.shared.gib", f"{FIELD}.disk_gib"


def stale_problems(intent: ServingIntent) -> Iterator[InputError]:
    """Yield why a tier could return blocks that the model on its rungs would not compute."""
    offload = intent.settings.kv_offload
    shared = None if offload is None else offload.shared
    if (shared is None) != (intent.kv_claim is None):
        rule = "must be set with" if intent.kv_claim is None else "must not be set without"
        yield InputError("kv_claim", f"{rule} {FIELD}.shared", intent.kv_claim)
    if offload is None:
        return
    if intent.live_adapters is not None:
        rule = "must not be set with live_adapters: an adapter that is uploaded again has the same"
        yield InputError(FIELD, f"{rule} path, by which its old blocks are found")
    elif intent.adapters:
        # a container that restarts keeps the files on the pod's disk, and reads the adapter again
        for path, gib in (
            (_DISK, offload.disk_gib),
            (_SHARED, None if shared is None else shared.gib),
        ):
            if gib is not None:
                rule = "must not be set with adapters: blocks are found by the path of an adapter"
                yield InputError(path, f"{rule}, not by its content", gib)
    if shared is None:
        return
    if intent.weights_claim is not None and "@" not in intent.weights:
        rule = "must not be set with weights on a disk, unless 'weights' names their version"
        note = ": other weights on it would read the same blocks"
        yield InputError(_SHARED, rule, shared.gib, note)
    algorithm = intent.settings.flags.get(_ALGORITHM, "")
    if algorithm.startswith("xxhash") and "PYTHONHASHSEED" not in intent.settings.variables:
        # v1/core/kv_cache_utils.py: only SHA-256 has the same seed in all engines
        rule = "must be sha256 or sha256_cbor with kv_offload.shared, unless engine_env sets"
        note = ": each engine would have names of its own for blocks"
        yield InputError(
            f"settings.engine_args.{_ALGORITHM}", f"{rule} PYTHONHASHSEED", algorithm, note
        )
    words = sorted({rung.accelerator for rung in intent.rungs.values() if rung.kind == "gpu"})
    if len(words) > 1:
        rule = "must not be set when the rungs have several accelerators"
        note = f": {', '.join(words)} may have different layouts of a block"
        yield InputError(_SHARED, rule, shared.gib, note)
