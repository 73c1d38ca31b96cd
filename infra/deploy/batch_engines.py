"""Arguments for own engines of batches: the model on the chips of a queue, and its identity."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import pulumi

from gke_inference.catalogue.rungs import Rung
from gke_inference.cluster.workload_identity import BucketAccessArgs, WorkloadIdentityArgs
from gke_inference.intent.settings import EngineSettings
from gke_inference.serving.offline.batch_engine import BatchEngineArgs
from gke_inference.sizing.default_batch import default_batch
from infra.deploy.identities import identity_of
from infra.deploy.serving_arguments import granted_secrets, server_args, weights_access
from infra.plan import RegionPlan, ServedModel
from infra.plan.batches import SERVICE, BatchPlan
from infra.plan.names import object_name
from infra.plan.queues import team_namespace
from infra.stack import BatchEngine, Form

_TOKENS_FLAG: Final = "max-num-batched-tokens"


def engines_in(
    batches: BatchPlan, region: RegionPlan
) -> dict[str, tuple[BatchEngine, ServedModel]]:
    """Return the own engines of a region's batches, by model, on the chips of their queues."""
    queues = {queue.name: queue for queue in region.queues}
    served = {each.name: each for each in region.served}
    return {
        name: (
            own,
            replace(
                served[name],
                buffer=0,
                capacity=queues[own.queue].flavors[0].capacity,
                form=Form.SINGLE,
                namespace=team_namespace(own.team),
                object_name=object_name(name),
            ),
        )
        for name, own in batches.settings.engines.items()
    }


def identity_args(
    served: ServedModel,
    buckets: Mapping[str, pulumi.Input[str]],
    batches: pulumi.Input[str],
) -> WorkloadIdentityArgs:
    """Return the arguments of the identity of a model's jobs: weights, caches and batches."""
    access = weights_access(replace(served, is_first=True), buckets["models"])
    if "weights" in access:
        # The grant for the weights keeps its name when a draft model joins: Pulumi removes a
        # renamed grant after it creates the new one, and the role that both stand for with it.
        if "models" in access:
            access["draft"] = access.pop("models")
        access["models"] = access.pop("weights")
    access["batches"] = BucketAccessArgs(access="write", bucket=batches)
    access["caches"] = BucketAccessArgs(access="write", bucket=buckets["caches"])
    identity = identity_of(served.site.project, served.namespace, account(served), access)
    if secrets := granted_secrets(replace(served, is_first=True)):
        identity["secrets"] = secrets
    return identity


def account(served: ServedModel) -> str:
    """Return the service account of a model's jobs."""
    return f"batch-{served.object_name}"


def engine_args(
    batches: BatchPlan,
    region: RegionPlan,
    own: BatchEngine,
    served: ServedModel,
    bucket: pulumi.Input[str],
) -> BatchEngineArgs:
    """Return the arguments of a model's own engine."""
    server = server_args(served)
    rung = next(iter(served.rungs.values()))
    settings = server.get("settings", EngineSettings())
    flags = {**_throughput(rung), **(settings.engine_args or {}), **own.engine_args}
    server["settings"] = settings.model_copy(update={"engine_args": flags})
    server["has_gate"] = False
    server["service_account"] = account(served)
    return BatchEngineArgs(
        bucket=bucket,
        deadline_seconds=batches.settings.deadline_seconds,
        images=region.images.replacements,
        metrics_namespace=region.metrics_namespace,
        models={
            each.name: list(each.endpoints) for each in batches.models if each.engine == served.name
        },
        queue=own.queue,
        requests=own.requests,
        server=server,
        service_account=SERVICE,
        service_namespace=region.namespace,
    )


def _throughput(rung: Rung) -> dict[str, str]:
    """Return the engine flags of work that nobody waits for."""
    tokens = default_batch(rung.accelerator, rung.chip.memory_gib).offline_tokens
    return {} if tokens is None else {_TOKENS_FLAG: str(tokens)}
