"""Jobs that optimize models, in the namespace of a team whose queue runs them."""

from collections.abc import Iterator
from typing import Final, TypeVar

import pulumi

from gke_inference.cluster.workload_identity import (
    BucketAccessArgs,
    WorkloadIdentity,
    WorkloadIdentityArgs,
)
from gke_inference.optimization import settings as shared
from gke_inference.optimization.optimization_job import (
    EvaluateArgs,
    EvaluatedArgs,
    JobChipsArgs,
    OptimizationJob,
    OptimizationJobArgs,
    QuantizeArgs,
    TuneArgs,
)
from gke_inference.settings import Settings
from infra.deploy.built_region import ServedRegion
from infra.deploy.identities import identity_of
from infra.plan import RegionPlan
from infra.plan.optimization import EvaluatedSide, OptimizationPlan, job_hardware
from infra.stack import Evaluation
from workloads.engine.weights_manifest import adapter_folder, split

ACCOUNT: Final = "optimization"
"""Service account of the jobs."""
_T = TypeVar("_T", bound=Settings)


def optimize_models(served: ServedRegion, needed: list[pulumi.Resource]) -> None:
    """Build the jobs that optimize models, if the stack has them in the region.

    Args:
        served: The region.
        needed: Dependencies of the jobs: the namespaces of teams.
    """
    region, bucket = served.plan, served.buckets["models"]
    plan = region.optimization
    if plan is None:
        return
    behind = served.after(*needed)
    name = f"{region.name}-{ACCOUNT}"
    identity = WorkloadIdentity(f"{name}-identity", identity_args(plan, region, bucket), behind)
    opts = pulumi.ResourceOptions.merge(behind, pulumi.ResourceOptions(depends_on=[identity]))
    for args in job_args(plan, region, bucket, served.endpoint):
        OptimizationJob(f"{region.name}-{args['job_name']}", args, opts)


def identity_args(
    plan: OptimizationPlan, region: RegionPlan, bucket: pulumi.Input[str]
) -> WorkloadIdentityArgs:
    """Return the arguments of the identity of all jobs, with access only to the bucket."""
    access = {"models": BucketAccessArgs(access="write", bucket=bucket)}
    return identity_of(region.project, plan.namespace, ACCOUNT, access)


def job_args(
    plan: OptimizationPlan,
    region: RegionPlan,
    bucket: pulumi.Input[str],
    endpoint: pulumi.Input[str],
) -> Iterator[OptimizationJobArgs]:
    """Yield the arguments of every job, in stack order.

    Args:
        plan: The jobs.
        region: Their region.
        bucket: Bucket of the models' weights.
        endpoint: URL of the region's gateway.
    """
    settings = plan.settings
    for name, quantization in settings.quantizations.items():
        args = _job(plan, bucket, f"quantize-{name}")
        args["quantize"] = QuantizeArgs(
            model=plan.models[quantization.model].weights,
            result=quantization.weights,
            settings=_shared(shared.Quantization, quantization),
        )
        args["chips"] = _chips(plan, region, quantization.model)
        yield args
    for name, tuning in settings.tunings.items():
        args = _job(plan, bucket, f"tune-{name}")
        weights = plan.models[tuning.model].weights
        args["tune"] = TuneArgs(
            model=weights,
            result=adapter_folder(split(weights)[0], tuning.adapter),
            settings=_shared(shared.Tuning, tuning),
        )
        args["chips"] = _chips(plan, region, tuning.model)
        yield args
    for name, evaluation in settings.evaluations.items():
        args = _job(plan, bucket, f"evaluate-{name}")
        args["evaluate"] = _evaluate(plan, name, evaluation, endpoint)
        yield args


def _job(plan: OptimizationPlan, bucket: pulumi.Input[str], name: str) -> OptimizationJobArgs:
    return OptimizationJobArgs(
        bucket=bucket,
        job_name=name,
        namespace=plan.namespace,
        queue=plan.settings.queue,
        service_account=ACCOUNT,
    )


def _chips(plan: OptimizationPlan, region: RegionPlan, model: str) -> JobChipsArgs:
    queue = region.queue(plan.settings.queue)
    found = job_hardware(plan.models[model], queue.flavors[0].capacity)
    return JobChipsArgs(
        chips=found.rung.chips_per_node,
        cpus=found.cpus,
        memory_gib=found.memory_gib,
        scratch_gib=found.scratch_gib,
    )


def _evaluate(
    plan: OptimizationPlan, name: str, evaluation: Evaluation, endpoint: pulumi.Input[str]
) -> EvaluateArgs:
    candidate, baseline = (_side(each) for each in plan.sides(evaluation))
    args = EvaluateArgs(
        baseline=baseline,
        candidate=candidate,
        endpoint=endpoint,
        evaluation_name=name,
        settings=_shared(shared.Evaluation, evaluation),
    )
    if plan.settings.key_secret is not None:
        args["key_secret"] = plan.settings.key_secret
    return args


def _side(side: EvaluatedSide) -> EvaluatedArgs:
    args = EvaluatedArgs(model=side.model, weights=side.weights)
    if side.version is not None:
        args["version"] = side.version
    return args


def _shared(kind: type[_T], settings: _T) -> _T:
    """Return the settings that a stack and the component share, without those of the stack."""
    return kind.model_validate({name: getattr(settings, name) for name in kind.model_fields})
