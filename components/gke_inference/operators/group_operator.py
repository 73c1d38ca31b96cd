"""The LeaderWorkerSet operator, which runs multi-host models as groups of pods."""

from typing import NotRequired, TypedDict

import pulumi

from gke_inference.base.checked import checked
from gke_inference.base.manifests import (
    Manifest,
    labels_for,
    manifest,
    role_binding,
    service_account,
)
from gke_inference.catalogue.versions import api, image

from .group_definitions import definitions
from .group_webhooks import webhooks
from .installation import install
from .manager import (
    CERTIFICATE_FOLDER,
    HEALTH_PORT,
    MANAGER_REPLICAS,
    WEBHOOK_PORT,
    Manager,
    ManagerReplicas,
    manager_objects,
    manager_server,
)

NAME = "lws-controller-manager"
NAMESPACE = "lws-system"
"""Fixed upstream: RBAC, certificates and leader election use this namespace."""
WEBHOOK_SERVICE = "lws-webhook-service"

_CERTIFICATE = "lws-webhook-server-cert"
_COMPONENT = "group-operator"
_EVERY = ["create", "delete", "get", "list", "patch", "update", "watch"]


class LeaderWorkerSetOperatorArgs(TypedDict):
    """Inputs of `LeaderWorkerSetOperator`."""

    replicas: NotRequired[ManagerReplicas]
    """Replicas of the operator; one is active; all answer webhooks. Default: 2, because no
    pod of a group can be created while no replica answers."""


class LeaderWorkerSetOperator(pulumi.ComponentResource):
    """The LeaderWorkerSet operator, with its definitions, webhooks and certificates.

    Create one for each cluster, unless the operator is already installed. GKE has no add-on for it.
    GKE's examples and llm-d install the upstream release. Objects: sigs.k8s.io/lws v0.9.0,
    config/default. Pass the cluster's Kubernetes provider in `opts`. Resources that create groups
    must depend on this component.
    """

    namespace: pulumi.Output[str]
    """Namespace of the operator."""

    def __init__(
        self,
        name: str,
        args: LeaderWorkerSetOperatorArgs,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gke-inference:index:LeaderWorkerSetOperator", name, {}, opts)
        args = checked(LeaderWorkerSetOperatorArgs, args)
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


def operator_objects() -> dict[str, Manifest]:
    """Return the operator's other objects by role: account, permissions, configuration, Service."""
    labels = labels_for(NAME, _COMPONENT)
    return {
        "account": manifest("service_account", NAME, NAMESPACE, labels=labels),
        "may": manifest("cluster_role", "lws-manager-role", labels=labels, rules=_rules()),
        "binding": _binding("lws-manager-rolebinding", "lws-manager-role"),
        "may-certify": manifest(
            "role",
            "lws-certificate-role",
            NAMESPACE,
            labels=labels,
            rules=[_rule([""], ["secrets"], ["get", "list", "update", "watch"])],
        ),
        "certifying": _binding(
            "lws-certificate-rolebinding", "lws-certificate-role", namespace=NAMESPACE
        ),
        "may-lead": manifest(
            "role", "lws-leader-election-role", NAMESPACE, labels=labels, rules=_election_rules()
        ),
        "election": _binding(
            "lws-leader-election-rolebinding", "lws-leader-election-role", namespace=NAMESPACE
        ),
        **manager_objects(_manager(), labels),
    }


def operator_server(replicas: int) -> Manifest:
    """Return the Deployment; it is ready when its webhooks answer."""
    return manager_server(_manager(), replicas)


def _configuration() -> str:
    kind = api("group_operator_config")
    lines = (
        f"apiVersion: {kind.api_version}",
        f"kind: {kind.kind}",
        "health:",
        f'  healthProbeBindAddress: ":{HEALTH_PORT}"',
        "internalCertManagement:",
        "  enable: true",
        f"  webhookSecretName: {_CERTIFICATE}",
        f"  webhookServiceName: {WEBHOOK_SERVICE}",
        "leaderElection:",
        "  leaderElect: true",
        "metrics:",
        '  bindAddress: "0"',
        "webhook:",
        f"  certDir: {CERTIFICATE_FOLDER}",
        f"  port: {WEBHOOK_PORT}",
    )
    return "\n".join(lines) + "\n"


def _binding(name: str, role: str, *, namespace: str | None = None) -> Manifest:
    operator = service_account(NAME, NAMESPACE)
    return role_binding(name, role, [operator], namespace, labels=labels_for(NAME, _COMPONENT))


def _rule(groups: list[str], resources: list[str], verbs: list[str]) -> Manifest:
    return {"apiGroups": groups, "resources": resources, "verbs": verbs}


def _rules() -> list[Manifest]:
    """Return upstream's permissions (config/rbac/role.yaml), except those for Secrets.

    Upstream lets the operator read the Secrets of every namespace. It reads only its certificate,
    through a cache of its own namespace (cert-controller v0.16.0, pkg/rotator), so access is
    limited to that.
    """
    made = [
        _rule([""], ["nodes"], ["get", "list", "patch", "update", "watch"]),
        _rule([""], ["pods", "services"], _EVERY),
        _rule([""], ["pods/finalizers"], ["update"]),
        _rule(
            ["", api("event").group],
            ["events"],
            ["create", "get", "list", "patch", "update", "watch"],
        ),
        _rule(
            [api("mutating_webhooks").group],
            ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
            ["get", "list", "update", "watch"],
        ),
    ]
    for group, plurals in (
        (api("deployment").group, ["controllerrevisions", "statefulsets"]),
        (api("disaggregated_set").group, ["disaggregatedsets"]),
        (api("leader_worker_set").group, ["leaderworkersets"]),
    ):
        made.append(_rule([group], plurals, _EVERY))
        made.append(_rule([group], [f"{each}/finalizers" for each in plurals], ["update"]))
        made.append(
            _rule([group], [f"{each}/status" for each in plurals], ["get", "patch", "update"])
        )
    return made


def _election_rules() -> list[Manifest]:
    return [
        _rule([""], ["configmaps"], _EVERY),
        _rule([api("lease").group], ["leases"], _EVERY),
        _rule(["", api("event").group], ["events"], ["create", "patch"]),
    ]


def _manager() -> Manager:
    return Manager(
        name=NAME,
        namespace=NAMESPACE,
        component=_COMPONENT,
        image=image("group_operator").reference,
        configuration=_configuration(),
        config_name="lws-manager-config",
        certificate=_CERTIFICATE,
        webhook_service=WEBHOOK_SERVICE,
        # it listens here once its certificate is mounted and its CA is in the webhooks
        ready={"tcpSocket": {"port": "webhook"}},
        cpu="250m",
        memory="256Mi",
    )
