"""The namespace of a team's jobs, in which everything runs through queues."""

from typing import Final, TypedDict

import pulumi

from gke_inference.base.checked import checked
from gke_inference.base.inputs import name_of, under
from gke_inference.base.manifests import Manifest, labels_for, manifest, register
from gke_inference.namespace.serving_namespace import namespace_object
from gke_inference.operators.queue_webhooks import QUEUED_NAMESPACE

_COMPONENT: Final = "job-queue"
_LEVEL: Final = "baseline"


class JobNamespaceArgs(TypedDict):
    """Inputs of `JobNamespace`."""

    namespace: str
    """Name of the namespace."""
    queues: dict[str, str]
    """Cluster queue of the team, by the name that jobs use in the label
    `kueue.x-k8s.io/queue-name`."""


class JobNamespace(pulumi.ComponentResource):
    """A namespace whose jobs are all managed by Kueue, and its local queues.

    A job without a queue stays suspended. Pods accept no traffic from outside the namespace.
    """

    namespace: pulumi.Output[str]
    """Name of the namespace."""

    def __init__(
        self, name: str, args: JobNamespaceArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:JobNamespace", name, {}, opts)
        args = checked(JobNamespaceArgs, args)
        namespace = name_of(args, "namespace", "namespace")
        space = register(name, jobs_namespace(namespace), under(self))
        behind = under(self, depends_on=[space])
        register(f"{name}-closed", closed(namespace), behind)
        for queue, cluster_queue in args["queues"].items():
            register(f"{name}-{queue}", local_queue(queue, namespace, cluster_queue), behind)
        self.namespace = pulumi.Output.from_input(namespace)
        self.register_outputs({"namespace": self.namespace})


def jobs_namespace(namespace: str) -> Manifest:
    """Return the Namespace, with the label that Kueue selects."""
    found = namespace_object(namespace, _LEVEL)
    labels = labels_for(namespace, _COMPONENT)
    found["metadata"]["labels"] |= {**labels, **QUEUED_NAMESPACE}
    return found


def local_queue(queue: str, namespace: str, cluster_queue: str) -> Manifest:
    """Return the LocalQueue that jobs of a namespace use."""
    labels = labels_for(queue, _COMPONENT)
    spec = {"clusterQueue": cluster_queue}
    return manifest("local_queue", queue, namespace, labels=labels, spec=spec)


def closed(namespace: str) -> Manifest:
    """Return the NetworkPolicy that allows ingress only from pods of the namespace."""
    return manifest(
        "network_policy",
        "own-pods-only",
        namespace,
        labels=labels_for("own-pods-only", _COMPONENT),
        spec={
            "ingress": [{"from": [{"podSelector": {}}]}],
            "podSelector": {},
            "policyTypes": ["Ingress"],
        },
    )
