"""Kueue, which queues jobs until their team has quota for the chips that they request."""

from typing import Final, NotRequired, TypedDict

import pulumi

from gke_inference.base.checked import checked
from gke_inference.base.inputs import under
from gke_inference.base.manifests import Manifest, labels_for, manifest, register
from gke_inference.catalogue.versions import api, image

from .installation import install
from .manager import (
    MANAGER_REPLICAS,
    Manager,
    ManagerReplicas,
    manager_objects,
    manager_pods,
    manager_server,
)
from .queue_configuration import CERTIFICATE, configuration
from .queue_definitions import definitions
from .queue_monitoring import METRICS_PORT, monitoring_objects
from .queue_permissions import permissions
from .queue_webhooks import webhooks

NAME: Final = "kueue-controller-manager"
NAMESPACE: Final = "kueue-system"
"""Upstream's namespace, which its documentation and tools expect."""
PRIORITIES: Final = {"high": 1000, "low": -1000}
"""Priorities of jobs by name; the default is 0."""
WEBHOOK_SERVICE: Final = "kueue-webhook-service"
"""Kueue finds its webhooks by the first part of this name."""

_COMPONENT: Final = "queue-operator"


class QueueOperatorArgs(TypedDict):
    """Inputs of `QueueOperator`."""

    job_sets: NotRequired[bool]
    """Whether sets of jobs (`JobSet`) queue as well. Depend on `JobSetOperator`. Default: false."""
    metrics_namespace: NotRequired[str]
    """Namespace of the Managed Prometheus collectors. Default: Kueue serves no metrics."""
    replicas: NotRequired[ManagerReplicas]
    """Replicas of Kueue; one is active; all answer webhooks. Default: 2, because no job of
    a team can be created while no replica answers."""


class QueueOperator(pulumi.ComponentResource):
    """Kueue, with its definitions, webhooks, certificates and priorities.

    Create one for each cluster, unless Kueue is already installed. It queues only the jobs of
    namespaces that carry its label. Objects: sigs.k8s.io/kueue v0.19.2, config/default. Pass the
    cluster's Kubernetes provider in `opts`. Resources that create queues must depend on this
    component.
    """

    namespace: pulumi.Output[str]
    """Namespace of Kueue."""

    def __init__(
        self,
        name: str,
        args: QueueOperatorArgs,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gke-inference:index:QueueOperator", name, {}, opts)
        args = checked(QueueOperatorArgs, args)
        replicas = args.get("replicas", MANAGER_REPLICAS)
        collectors = args.get("metrics_namespace")
        observed = collectors is not None
        job_sets = bool(args.get("job_sets", False))
        kinds = install(
            self,
            name,
            NAMESPACE,
            definitions=definitions(NAMESPACE, WEBHOOK_SERVICE),
            objects={
                **operator_objects(observed=observed, job_sets=job_sets),
                **webhooks(NAMESPACE, WEBHOOK_SERVICE, job_sets=job_sets),
            },
            server=operator_server(replicas, observed=observed, job_sets=job_sets),
            after=None if collectors is None else observers(collectors),
        )
        for role, obj in priorities().items():
            register(f"{name}-priority-{role}", obj, under(self, depends_on=kinds))
        self.namespace = pulumi.Output.from_input(NAMESPACE)
        self.register_outputs({"namespace": self.namespace})


def operator_objects(*, observed: bool = False, job_sets: bool = False) -> dict[str, Manifest]:
    """Return Kueue's other objects by role: account, permissions, configuration, Service.

    `observed` is whether it serves metrics, `job_sets` whether sets of jobs queue as well.
    """
    labels = labels_for(NAME, _COMPONENT)
    return {
        "account": manifest("service_account", NAME, NAMESPACE, labels=labels),
        **permissions(NAME, NAMESPACE, labels, job_sets=job_sets),
        **manager_objects(_manager(observed=observed, job_sets=job_sets), labels),
    }


def observers(collectors: str) -> dict[str, Manifest]:
    """Return the objects through which collectors in a namespace read Kueue's metrics, by role."""
    return monitoring_objects(NAME, NAMESPACE, collectors, manager_pods(NAME))


def operator_server(replicas: int, *, observed: bool = False, job_sets: bool = False) -> Manifest:
    """Return the Deployment; it is ready when its webhooks answer.

    `observed` is whether it serves metrics, `job_sets` whether sets of jobs queue as well.
    """
    return manager_server(_manager(observed=observed, job_sets=job_sets), replicas)


def priorities() -> dict[str, Manifest]:
    """Return the priorities of jobs by name; they order queues, not pods on nodes."""
    return {
        name: manifest(
            "workload_priority_class",
            name,
            labels=labels_for(name, _COMPONENT),
            value=value,
        )
        for name, value in PRIORITIES.items()
    }


def _manager(*, observed: bool, job_sets: bool) -> Manager:
    kind = api("queue_operator_config")
    metrics_port = METRICS_PORT if observed else None
    return Manager(
        name=NAME,
        namespace=NAMESPACE,
        component=_COMPONENT,
        image=image("queue_operator").reference,
        configuration=configuration(
            kind.api_version,
            kind.kind,
            namespace=NAMESPACE,
            service=WEBHOOK_SERVICE,
            job_sets=job_sets,
            metrics_port=metrics_port,
        ),
        config_name="kueue-manager-config",
        certificate=CERTIFICATE,
        webhook_service=WEBHOOK_SERVICE,
        ready={"httpGet": {"path": "/readyz", "port": "health"}},
        cpu="500m",
        memory="512Mi",
        metrics_port=metrics_port,
    )
