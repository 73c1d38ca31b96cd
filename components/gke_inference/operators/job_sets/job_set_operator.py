"""The JobSet operator, which runs a job over several hosts as one."""

import json
from pathlib import Path
from typing import Final, NotRequired, TypedDict

import pulumi

from gke_inference.base.checked import checked
from gke_inference.base.custom_definitions import published_definition
from gke_inference.base.manifests import (
    Manifest,
    labels_for,
    manifest,
    role_binding,
    service_account,
)
from gke_inference.catalogue.data_file import read_table
from gke_inference.catalogue.versions import api, image
from gke_inference.operators.installation import install
from gke_inference.operators.manager import (
    CERTIFICATE_FOLDER,
    HEALTH_PORT,
    MANAGER_REPLICAS,
    WEBHOOK_PORT,
    Manager,
    ManagerReplicas,
    manager_objects,
    manager_server,
)
from gke_inference.operators.queue_permissions import rule

from .job_set_webhooks import webhooks

NAME: Final = "jobset-controller-manager"
NAMESPACE: Final = "jobset-system"
"""Upstream's namespace, which the operator assumes if it cannot read its own."""
WEBHOOK_SERVICE: Final = "jobset-webhook-service"

_CERTIFICATE: Final = "jobset-webhook-server-cert"
_COMPONENT: Final = "job-set-operator"
_FILE: Final = Path(__file__).parents[1] / "data" / "job_set_kinds.yaml"
_READ: Final = ["get", "list", "watch"]
_CHANGE: Final = [*_READ, "patch", "update"]
_EVERY: Final = [*_CHANGE, "create", "delete"]


class JobSetOperatorArgs(TypedDict):
    """Inputs of `JobSetOperator`."""

    replicas: NotRequired[ManagerReplicas]
    """Replicas of the operator; one is active; all answer webhooks. Default: 2, because no
    pod of a set can be created while no replica answers."""


class JobSetOperator(pulumi.ComponentResource):
    """The JobSet operator, with its definition, webhooks and certificates.

    Create one for each cluster, unless JobSet is already installed. GKE has no add-on for it.
    Objects: sigs.k8s.io/jobset v0.12.0, config/default. Pass the cluster's Kubernetes provider in
    `opts`. Resources that create sets, and a `QueueOperator` with `jobSets`, must depend on this
    component.
    """

    namespace: pulumi.Output[str]
    """Namespace of the operator."""

    def __init__(
        self, name: str, args: JobSetOperatorArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:JobSetOperator", name, {}, opts)
        args = checked(JobSetOperatorArgs, args)
        replicas = args.get("replicas", MANAGER_REPLICAS)
        install(
            self,
            name,
            NAMESPACE,
            definitions=definitions(),
            objects={**operator_objects(), **webhooks(NAMESPACE, WEBHOOK_SERVICE)},
            server=operator_server(replicas),
        )
        self.namespace = pulumi.Output.from_input(NAMESPACE)
        self.register_outputs({"namespace": self.namespace})


def definitions() -> dict[str, Manifest]:
    """Return the CustomResourceDefinition of JobSet, by its plural name."""
    return {
        plural: published_definition("job_set", plural, _COMPONENT, found)
        for plural, found in read_table(_FILE).items()
    }


def operator_objects() -> dict[str, Manifest]:
    """Return the operator's other objects by role: account, permissions, configuration, Service."""
    labels = labels_for(NAME, _COMPONENT)
    account = [service_account(NAME, NAMESPACE)]
    role, certify, lead = "jobset-manager-role", "jobset-certificate-role", "jobset-election-role"
    secrets = [rule("", ["secrets"], ["get", "list", "update", "watch"])]
    return {
        "account": manifest("service_account", NAME, NAMESPACE, labels=labels),
        "may": manifest("cluster_role", role, labels=labels, rules=_rules()),
        "binding": role_binding(f"{role}binding", role, account, labels=labels),
        "may-certify": manifest("role", certify, NAMESPACE, labels=labels, rules=secrets),
        "certifying": role_binding(f"{certify}binding", certify, account, NAMESPACE, labels=labels),
        "may-lead": manifest("role", lead, NAMESPACE, labels=labels, rules=_election_rules()),
        "election": role_binding(f"{lead}binding", lead, account, NAMESPACE, labels=labels),
        **manager_objects(_manager(), labels),
    }


def operator_server(replicas: int) -> Manifest:
    """Return the Deployment; it is ready when its webhooks answer."""
    return manager_server(_manager(), replicas)


def _rules() -> list[Manifest]:
    """Return upstream's permissions (config/components/rbac/role.yaml)."""
    jobs, sets = api("job").group, api("job_set").group
    hooks = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]
    events = ["create", "patch", "update", "watch"]
    return [
        rule("", ["nodes"], _READ),
        rule("", ["persistentvolumeclaims"], [*_READ, "create"]),
        rule("", ["pods"], [*_CHANGE, "delete"]),
        rule("", ["services"], _EVERY),
        rule("", ["events"], events),
        rule(api("event").group, ["events"], events),
        rule(api("mutating_webhooks").group, hooks, [*_READ, "update"]),
        rule(jobs, ["jobs"], _EVERY),
        rule(jobs, ["jobs/status"], ["get", "patch", "update"]),
        rule(sets, ["jobsets"], _EVERY),
        rule(sets, ["jobsets/finalizers"], ["update"]),
        rule(sets, ["jobsets/status"], ["get", "patch", "update"]),
    ]


def _election_rules() -> list[Manifest]:
    return [
        rule("", ["configmaps"], _EVERY),
        rule(api("lease").group, ["leases"], _EVERY),
        rule("", ["events"], ["create", "patch"]),
        rule(api("event").group, ["events"], ["create", "patch"]),
    ]


def _configuration() -> str:
    kind = api("job_set_operator_config")
    found = {
        "apiVersion": kind.api_version,
        "health": {"healthProbeBindAddress": f":{HEALTH_PORT}"},
        "internalCertManagement": {
            "enable": True,
            "webhookSecretName": _CERTIFICATE,
            "webhookServiceName": WEBHOOK_SERVICE,
        },
        "kind": kind.kind,
        "leaderElection": {"leaderElect": True, "resourceNamespace": NAMESPACE},
        "metrics": {"bindAddress": "0"},
        "webhook": {"certDir": CERTIFICATE_FOLDER, "port": WEBHOOK_PORT},
    }
    return json.dumps(found, indent=2, sort_keys=True) + "\n"


def _manager() -> Manager:
    return Manager(
        name=NAME,
        namespace=NAMESPACE,
        component=_COMPONENT,
        image=image("job_set_operator").reference,
        configuration=_configuration(),
        config_name="jobset-manager-config",
        certificate=_CERTIFICATE,
        webhook_service=WEBHOOK_SERVICE,
        ready={"httpGet": {"path": "/readyz", "port": "health"}},
        cpu="500m",
        memory="128Mi",
    )
