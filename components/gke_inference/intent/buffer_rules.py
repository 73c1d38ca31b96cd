"""Rules against capacity buffers that GKE would never fill.

A unit of a buffer is a single pod in the memory of the cluster autoscaler: it has no other pods
beside it and no ResourceClaims.
"""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.names import ONE_POD_FORMS
from gke_inference.intent.intent import ServingIntent

FIELD = "buffer_replicas"


def buffer_problems(intent: ServingIntent) -> Iterator[InputError]:
    """Yield why nodes cannot be kept for a model: at most one reason."""
    count = intent.buffer_replicas
    if not count:
        return
    if intent.form == "dra":
        yield InputError(FIELD, "must be 0 with form dra: a buffer claims no devices", count)
        return
    kinds = intent.kinds if intent.form in ONE_POD_FORMS else intent.kinds[:1]
    rungs = {place: rung for place, rung in intent.rungs.items() if rung.kind in kinds}
    for place, rung in rungs.items():
        if rung.is_multi_host:
            rule = f"must be 0 for {place}: its replicas span hosts, and a buffer holds single pods"
            yield InputError(FIELD, rule, count)
            return
        if rung.network == "rdma":
            rule = f"must be 0 for {place}: a buffer claims no RDMA interfaces"
            yield InputError(FIELD, rule, count)
            return
    if rungs and all(rung.provisioning == "flex-start" for rung in rungs.values()):
        rule = "must be 0 when every rung is flex-start: no use with a buffer has been published"
        yield InputError(FIELD, rule, count)
