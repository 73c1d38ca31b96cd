"""A job queue: chips of one or more compute classes, with a quota per team."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, NotRequired, TypedDict

import pulumi
from pydantic import Field

from gke_inference.base.checked import checked, keep
from gke_inference.base.inputs import name_of, under
from gke_inference.base.manifests import Manifest, labels_for, manifest, register
from gke_inference.catalogue.accelerators import (
    catalogue_labels,
    catalogue_resources,
    catalogue_taints,
)
from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import join, one_of
from gke_inference.catalogue.versions import api
from gke_inference.operators.queue_webhooks import QUEUED_NAMESPACE

from .rules import check_quota, check_total
from .settings import FlavorChips, TeamChips

_COMPONENT: Final = "job-queue"
_HOSTNAME: Final = "kubernetes.io/hostname"
_QUEUED_CLASS: Final = "queued-provisioning.gke.io"
_RETRIES: Final = {"backoffBaseSeconds": 60, "backoffLimitCount": 100, "backoffMaxSeconds": 600}


RunSeconds = Annotated[int, Field(ge=1, le=604_800)]
"""Maximum run time of nodes: at most seven days."""


class QueueFlavorArgs(TypedDict):
    """Chips of one compute class."""

    chips: FlavorChips
    """Maximum number of chips for the jobs of all teams combined."""
    compute_class: str
    """Compute class of the nodes, and name of the flavor."""
    kind: str
    """`tpu` or `gpu`."""
    max_run_seconds: NotRequired[RunSeconds]
    """With `node_pool`: maximum run time of its nodes. Default: the run time of the job."""
    node_pool: NotRequired[str]
    """Node pool with queued provisioning that provides the nodes instead of the compute class: all
    nodes of a job are provisioned together or none. `compute_class` is then only the name of the
    flavor."""
    topology: NotRequired[bool]
    """With `node_pool`: whether Kueue places the pods of a job by the block, sub-block and host of
    their nodes, as far as the annotations of the job ask for it. Default: false."""


class QueueTeamArgs(TypedDict):
    """Quota of a team in a queue."""

    namespace: str
    """Namespace of its jobs."""
    borrow: NotRequired[TeamChips]
    """Chips of each flavor that it may borrow beyond its quota while other teams do not use them.
    Default: all of them."""
    chips: NotRequired[dict[str, TeamChips]]
    """Nominal quota of chips, by flavor. Default: none."""
    lend: NotRequired[TeamChips]
    """Unused chips of each flavor that it lends to other teams. Default: all."""


class JobQueueArgs(TypedDict):
    """Inputs of `JobQueue`."""

    flavors: list[QueueFlavorArgs]
    """Chips in order of preference: a job gets those of the first flavor with room for it."""
    queue_name: str
    """Name of the queue."""
    teams: dict[str, QueueTeamArgs]
    """Teams by name."""
    preempt: NotRequired[bool]
    """Whether a team can reclaim chips that others borrowed from it, and a job of high priority can
    preempt one of lower priority of its own team. Preempted jobs wait again. Default: true."""


class JobQueue(pulumi.ComponentResource):
    """Kueue flavors, a cohort, and a cluster queue for each team.

    Chips of a flavor beyond the teams' quotas belong to the cohort, for all teams to borrow. Kueue
    must be installed: depend on `QueueOperator`. `JobNamespace` creates the local queues of the
    teams.
    """

    queue_name: pulumi.Output[str]
    """Name of the queue."""

    def __init__(
        self, name: str, args: JobQueueArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:JobQueue", name, {}, opts)
        args = checked(JobQueueArgs, args)
        queue = name_of(args, "queue_name", "namespace")
        flavors, teams = args["flavors"], args["teams"]
        keep(_flavor_problems(flavors))
        keep(_team_problems(flavors, teams))
        topology: list[pulumi.Resource] = []
        if any(each.get("topology") for each in flavors):
            topology = [register(f"{name}-topology", topology_object(queue), under(self))]
        made: list[pulumi.Resource] = [
            register(
                f"{name}-flavor-{each['compute_class']}",
                flavor_object(each, queue),
                under(self, depends_on=topology),
            )
            for each in flavors
        ]
        made += topology
        for each in flavors:
            for role, obj in queued_objects(queue, each).items():
                made.append(register(f"{name}-{each['compute_class']}-{role}", obj, under(self)))
        rest = cohort_object(queue, flavors, teams)
        made.append(register(f"{name}-cohort", rest, under(self, depends_on=[*made])))
        preempt = bool(args.get("preempt", True))
        for team, share in teams.items():
            obj = team_queue(queue, team, share, flavors, preempt=preempt)
            register(f"{name}-{team}", obj, under(self, depends_on=[*made]))
        self.queue_name = pulumi.Output.from_input(queue)
        self.register_outputs({"queueName": self.queue_name})


def _flavor_problems(flavors: Sequence[QueueFlavorArgs]) -> Iterator[InputError]:
    names = [each["compute_class"] for each in flavors]
    for at, each in enumerate(flavors):
        where, name = join("flavors", at), each["compute_class"]
        if each["kind"] not in catalogue_resources():
            yield one_of(join(where, "kind"), each["kind"], catalogue_resources())
        if name in names[:at]:
            rule = "must be in only one flavor"
            yield InputError(join(where, "compute_class"), rule, name, " twice")
        if each.get("topology") and "node_pool" not in each:
            rule = "must be false without nodePool: Kueue admits such jobs only to existing nodes"
            yield InputError(join(where, "topology"), rule)


def _team_problems(
    flavors: Sequence[QueueFlavorArgs], teams: Mapping[str, QueueTeamArgs]
) -> Iterator[InputError]:
    names = [each["compute_class"] for each in flavors]
    for at, each in enumerate(flavors):
        quotas = [_own(team, each["compute_class"]) for team in teams.values()]
        yield from check_total(join("flavors", at, "chips"), each["chips"], quotas)
    for team, share in teams.items():
        yield from check_quota(join("teams", team, "chips"), share.get("chips", {}), names)


def team_queue_name(queue: str, team: str) -> str:
    """Return the name of a team's cluster queue."""
    return f"{queue}-{team}"


def topology_object(queue: str) -> Manifest:
    """Return the Topology: which node labels give its location, from the outermost level.

    Levels: docs.cloud.google.com/ai-hypercomputer/docs/workloads/schedule-gke-workloads-tas.
    """
    labels = catalogue_labels()
    keys = [labels[f"topology_{level}"] for level in ("block", "subblock", "host")]
    return manifest(
        "queue_topology",
        queue,
        labels=labels_for(queue, _COMPONENT),
        spec={"levels": [{"nodeLabel": key} for key in (*keys, _HOSTNAME)]},
    )


def flavor_object(flavor: QueueFlavorArgs, queue: str) -> Manifest:
    """Return the ResourceFlavor: node labels and tolerations of its pods."""
    labels, taints = catalogue_labels(), catalogue_taints()
    name, pool = flavor["compute_class"], flavor.get("node_pool")
    accepted: list[Manifest] = [
        {"effect": "NoSchedule", "key": taints[flavor["kind"]]["key"], "operator": "Exists"}
    ]
    if pool is not None:
        node_labels = {labels["node_pool"]: pool}
        accepted.append(_tolerated(labels["queued"], "true"))
    else:
        node_labels = {labels["compute_class"]: name}
        accepted.append({"effect": "NoSchedule", "operator": "Equal", **taints["spot"]})
        accepted.append(_tolerated(labels["compute_class"], name))
    return manifest(
        "resource_flavor",
        name,
        labels=labels_for(name, _COMPONENT),
        spec={
            "nodeLabels": node_labels,
            "tolerations": accepted,
            **({"topologyName": queue} if flavor.get("topology") else {}),
        },
    )


def queued_objects(queue: str, flavor: QueueFlavorArgs) -> dict[str, Manifest]:
    """Return the objects for queued provisioning, or none for a compute class."""
    if flavor.get("node_pool") is None:
        return {}
    name = check_name_of(queue, flavor)
    config = api("provisioning_request_config")
    parameters: Manifest = {}
    seconds = flavor.get("max_run_seconds")
    if seconds is not None:
        parameters["parameters"] = {"maxRunDurationSeconds": str(seconds)}
    labels = labels_for(name, _COMPONENT)
    return {
        "request": manifest(
            "provisioning_request_config",
            name,
            labels=labels,
            spec={
                "managedResources": [catalogue_resources()[flavor["kind"]]],
                "provisioningClassName": _QUEUED_CLASS,
                # GKE fails a request while nodes of the job before it are still in the pool, and
                # Kueue deactivates a job for good after three failures if nothing is said
                "retryStrategy": {**_RETRIES},
                **parameters,
            },
        ),
        "check": manifest(
            "admission_check",
            name,
            labels=labels,
            spec={
                "controllerName": f"{config.group}/provisioning-request",
                "parameters": {"apiGroup": config.group, "kind": config.kind, "name": name},
            },
        ),
    }


def check_name_of(queue: str, flavor: QueueFlavorArgs) -> str:
    """Return the name of the admission check for a flavor's jobs."""
    return f"{queue}-{flavor['compute_class']}"


def _tolerated(key: str, value: str) -> Manifest:
    return {"effect": "NoSchedule", "key": key, "operator": "Equal", "value": value}


def cohort_object(
    queue: str, flavors: Sequence[QueueFlavorArgs], teams: Mapping[str, QueueTeamArgs]
) -> Manifest:
    """Return the Cohort, with the chips beyond the teams' quotas."""
    rest = {
        each["compute_class"]: each["chips"]
        - sum(_own(team, each["compute_class"]) for team in teams.values())
        for each in flavors
    }
    groups = _groups(flavors, {name: {"nominalQuota": chips} for name, chips in rest.items()})
    labels = labels_for(queue, _COMPONENT)
    return manifest("queue_cohort", queue, labels=labels, spec={"resourceGroups": groups})


def team_queue(
    queue: str,
    team: str,
    share: QueueTeamArgs,
    flavors: Sequence[QueueFlavorArgs],
    *,
    preempt: bool,
) -> Manifest:
    """Return the ClusterQueue of a team."""
    name = team_queue_name(queue, team)
    quotas: dict[str, Manifest] = {}
    for each in flavors:
        flavor = each["compute_class"]
        own = _own(share, flavor)
        quota: Manifest = {"nominalQuota": own}
        if share.get("borrow") is not None:
            quota["borrowingLimit"] = share.get("borrow")
        lend = share.get("lend")
        if lend is not None:
            quota["lendingLimit"] = min(lend, own)  # cannot lend more than it has
        quotas[flavor] = quota
    spec: Manifest = {
        "cohortName": queue,
        # The cheaper flavor with a loan comes before the next one without; see docs/queues.md.
        "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
        "namespaceSelector": {
            "matchLabels": {**QUEUED_NAMESPACE, "kubernetes.io/metadata.name": share["namespace"]}
        },
        "preemption": {
            "reclaimWithinCohort": "Any" if preempt else "Never",
            "withinClusterQueue": "LowerPriority" if preempt else "Never",
        },
        "queueingStrategy": "BestEffortFIFO",
        "resourceGroups": _groups(flavors, quotas),
    }
    checks = [
        {"name": check_name_of(queue, each), "onFlavors": [each["compute_class"]]}
        for each in flavors
        if each.get("node_pool") is not None
    ]
    if checks:
        spec["admissionChecksStrategy"] = {"admissionChecks": checks}
    return manifest("cluster_queue", name, labels=labels_for(name, _COMPONENT), spec=spec)


def _own(share: QueueTeamArgs, flavor: str) -> int:
    return share.get("chips", {}).get(flavor, 0)


def _groups(
    flavors: Sequence[QueueFlavorArgs], quotas: Mapping[str, Manifest]
) -> list[dict[str, Any]]:
    """Return the quotas by requested resource. Each resource is in one group only."""
    return [
        {
            "coveredResources": [resource],
            "flavors": [
                {
                    "name": each["compute_class"],
                    "resources": [{"name": resource, **quotas[each["compute_class"]]}],
                }
                for each in flavors
                if each["kind"] == kind
            ],
        }
        for kind, resource in catalogue_resources().items()
        if any(each["kind"] == kind for each in flavors)
    ]
