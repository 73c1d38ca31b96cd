"""Alternatives to a platform on GKE that cost less for the traffic of a plan.

Their prices are data/alternatives.yaml, and those of Cloud Run the catalogue's. Nothing is
recommended without a figure that is computed from the plan. Compared are accelerators alone: the
cluster around them comes on top.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from gke_inference.catalogue.cloud_run import gpu_names, run_gpu, run_times
from gke_inference.catalogue.platform_prices import UnitPrice, run_instance_price
from planner.choice.coldstart import NODE_STAGES
from planner.choice.cost import MEAN_SHARE
from planner.choice.plan import Choice, Plan
from planner.fit.tables import table

_PRICED: Final = "us-central1"
"""Region whose prices of Cloud Run are known."""


@dataclass(frozen=True)
class Alternative:
    """Service that may fit better."""

    name: str
    reason: str
    """The rule, with the numbers of the plan."""
    source: str


def alternatives(answer: Plan) -> list[Alternative]:
    """Return the services that fit better than the best choice of a plan; none without one."""
    if not answer.choices or not answer.choices[0].keeps_promise:
        return []
    return [*_cloud_run(answer), *_vertex(answer), *_slurm(answer)]


def cloud_run_price(accelerator: str) -> UnitPrice | None:
    """Return the hourly price of an instance with a GPU on Cloud Run, while it is awake.

    It is that of the usual size without zonal redundancy, in the region whose prices are known.
    """
    gpu = run_gpu(accelerator)
    return run_instance_price(accelerator, _PRICED, gpu.vcpus[0], gpu.usual_gib, is_zonal=False)


def _cloud_run(answer: Plan) -> Iterator[Alternative]:
    """Yield Cloud Run if one of its GPUs is enough, with the hours a day up to which it is cheaper.

    A replica on GKE is paid for the whole day.
    """
    best = answer.choices[0]
    gpus = (name for name in gpu_names() if cloud_run_price(name) is not None)
    found = ((name, one) for name in gpus for one in answer.choices if _is_one(one, name))
    name, fits = next(found, (None, None))
    price = None if name is None else cloud_run_price(name)
    if fits is None or price is None or best.replicas > 1 or best.usd_per_hour is None:
        return
    awake, always = price.usd, best.usd_per_hour.value
    hours = 24 * always / awake
    often = f"if requests come in fewer than {hours:.1f} hours a day"
    when = "even all day" if hours >= 24 else often
    start = sum(each.seconds for each in fits.start.stages if each.name not in NODE_STAGES)
    reason = (
        f"cheaper {when}: one {name} costs"
        f" ${awake:.2f} an hour there while it is awake, up to {run_times().idle_minutes} minutes"
        f" after the last request, and the replica here ${always:.2f} in every hour; the first"
        f" request after a pause waits about {start:.0f} s. Add it to `backends` to keep the"
        " endpoint"
    )
    yield Alternative("Cloud Run", reason, f"{price.source} ({price.confidence})")


def _is_one(one: Choice, accelerator: str) -> bool:
    form = one.candidate.form
    return one.keeps_promise and one.replicas == 1 and (form.word, form.chips) == (accelerator, 1)


def _vertex(answer: Plan) -> Iterator[Alternative]:
    """Yield Vertex AI if it serves the model for less than the plan's replicas."""
    asked, best, data = answer.question, answer.choices[0], table("alternatives")["vertex"]
    listed = data["models"].get(asked.model.name)
    if listed is None or best.usd_per_hour is None:
        return
    request = (asked.given * listed["input"] + asked.made * listed["output"]) / 1e6
    mean = asked.rate * MEAN_SHARE
    hour, always = 3600 * mean * request, best.usd_per_hour.value
    if hour >= always:
        return
    reason = (
        f"at {mean:g} requests/s on average ({MEAN_SHARE:.0%} of the peak), {asked.model.name}"
        f" as a service costs ${hour:.2f} an hour, at ${listed['input']:.2f} and"
        f" ${listed['output']:.2f} per million tokens in and out, and the replicas here"
        f" ${always:.2f}; it is cheaper below {always / 3600 / request:.2g} requests/s. Add it to"
        f" `backends` to keep the endpoint"
    )
    yield _alternative("Vertex AI", reason, data)


def _slurm(answer: Plan) -> Iterator[Alternative]:
    """Yield a cluster with Slurm for work that fills many hosts and for which nobody waits."""
    best, data = answer.choices[0], table("alternatives")["slurm"]
    chips, patience = best.candidate.form.chips * best.replicas, answer.question.ttft_p95_ms
    if chips < data["least_chips"] or patience < data["least_ttft_p95_ms"]:
        return
    reason = (
        f"nobody waits for the first token ({patience / 1e3:,.0f} s) and the work fills {chips}"
        " chips at once: a batch scheduler packs and queues it, and needs no gateway"
    )
    yield _alternative("Cluster Director with Slurm", reason, data)


def _alternative(name: str, reason: str, data: dict[str, Any]) -> Alternative:
    return Alternative(name, reason, f"{data['source']} ({data['confidence']})")
