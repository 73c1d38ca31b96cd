"""The source of a namespace's models: an object tree in git or in a registry."""

from typing import Final, NotRequired, TypedDict

import pulumi

from gke_inference.base.checked import checked
from gke_inference.base.inputs import name_of, under
from gke_inference.base.manifests import Manifest, labels_for, manifest, register
from gke_inference.settings.fields import Branch, ObjectName

from .settings import DEFAULT_BRANCH, DeliverySourceKind, DeliveryTool

SYNC_NAME: Final = "repo-sync"
"""Name of the RepoSync. With exactly this name, its reconciler's account is
`ns-reconciler-NAMESPACE`; otherwise, the account name also contains that of the RepoSync."""
_TAKES_ALL: Final = {"configsync.gke.io/deletion-propagation-policy": "Foreground"}
"""Deletes the objects before the RepoSync. Without it, servers would keep running and cost
money."""
_ARGO_TAKES_ALL: Final = "resources-finalizer.argocd.argoproj.io"
_GOOGLE_REGISTRY: Final = "-docker.pkg.dev"


class ModelDeliveryArgs(TypedDict):
    """Inputs of `ModelDelivery`."""

    directory: str
    """Folder of the objects in the source, empty for the root."""
    kind: DeliverySourceKind
    """Type of the source."""
    location: str
    """URL of the repository, or `HOST/PATH:TAG` of the artifact."""
    namespace: str
    """Namespace of the objects, which must exist."""
    tool: DeliveryTool
    """Tool, which must be in the cluster."""
    branch: NotRequired[Branch]
    """Branch, where `kind` is `git`. Default: `main`."""
    secret: NotRequired[ObjectName]
    """Secret in the namespace that Config Sync uses to read the repository, with the keys
    `username` and `token`, or `ssh`. Default: none, for a public repository."""


class ModelDelivery(pulumi.ComponentResource):
    """A Config Sync RepoSync, or an Argo CD Application, for one namespace.

    Both prune objects that are no longer in the source, revert changes by others, and delete all
    objects when they are deleted. Argo CD must accept Applications from the namespace
    (`application.namespaces`), in a project of the same name, which `TeamShare` creates.
    """

    object_name: pulumi.Output[str]
    """Name of the RepoSync or Application."""

    def __init__(
        self, name: str, args: ModelDeliveryArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:ModelDelivery", name, {}, opts)
        args = checked(ModelDeliveryArgs, args)
        name_of(args, "namespace", "namespace")
        tool = args["tool"]
        has_logins = (tool, args["kind"]) != (DeliveryTool.CONFIG_SYNC, DeliverySourceKind.GIT)
        if "secret" in args and has_logins:
            message = "must not be set except for git with config-sync"
            raise pulumi.InputPropertyError("secret", f"{message}, got {args['secret']!r}")
        made = repo_sync(args) if tool is DeliveryTool.CONFIG_SYNC else application(args)
        register(name, made, under(self))
        self.object_name = pulumi.Output.from_input(str(made["metadata"]["name"]))
        self.register_outputs({"objectName": self.object_name})


def repo_sync(args: ModelDeliveryArgs) -> Manifest:
    """Return the Config Sync RepoSync."""
    place = {"dir": args["directory"]} if args["directory"] else {}
    spec: Manifest = {"sourceFormat": "unstructured", "sourceType": args["kind"].value}
    if args["kind"] is DeliverySourceKind.GIT:
        secret = args.get("secret")
        spec["git"] = {
            "auth": "none" if secret is None else _login(args["location"]),
            "branch": args.get("branch", DEFAULT_BRANCH),
            "repo": args["location"],
            **place,
            **({} if secret is None else {"secretRef": {"name": secret}}),
        }
    else:
        host = args["location"].partition("/")[0]
        auth = "k8sserviceaccount" if host.endswith(_GOOGLE_REGISTRY) else "none"
        spec["oci"] = {"auth": auth, "image": args["location"], **place}
    return manifest(
        "repo_sync",
        SYNC_NAME,
        args["namespace"],
        annotations=_TAKES_ALL,
        labels=labels_for(SYNC_NAME, "delivery"),
        spec=spec,
    )


def _login(repository: str) -> str:
    """Return the authentication settings for a repository."""
    return "token" if repository.startswith(("https://", "http://")) else "ssh"


def application(args: ModelDeliveryArgs) -> Manifest:
    """Return the Argo CD Application, in the namespace that it manages."""
    namespace = args["namespace"]
    if args["kind"] is DeliverySourceKind.GIT:
        repository, revision = args["location"], args.get("branch", DEFAULT_BRANCH)
    else:
        image, _, revision = args["location"].rpartition(":")
        repository = f"oci://{image}"
    made = manifest(
        "argo_application",
        namespace,
        namespace,
        labels=labels_for(namespace, "delivery"),
        spec={
            "destination": {"namespace": namespace, "server": "https://kubernetes.default.svc"},
            "project": namespace,
            "source": {
                "path": args["directory"] or ".",
                "repoURL": repository,
                "targetRevision": revision,
            },
            "syncPolicy": {
                "automated": {"prune": True, "selfHeal": True},
                "syncOptions": ["ServerSideApply=true"],
            },
        },
    )
    made["metadata"]["finalizers"] = [_ARGO_TAKES_ALL]
    return made
