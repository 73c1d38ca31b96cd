"""Type tokens of the kubernetes package, and cluster-scoped kinds."""

from typing import NamedTuple

from twin.providers.kubernetes.manifests.errors import InvalidInput, ProviderError


class GroupVersionKind(NamedTuple):
    """A kind, as named in manifests."""

    api_version: str
    kind: str

    @property
    def group(self) -> str:
        """API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]


# Kinds of Kubernetes itself that are not namespaced (API of release 1.36).
_CLUSTER_SCOPED = frozenset(
    """
    APIService CSIDriver CSINode CertificateSigningRequest ClusterRole ClusterRoleBinding
    ClusterTrustBundle ComponentStatus CustomResourceDefinition DeviceClass DeviceTaintRule
    FlowSchema IPAddress IngressClass MutatingAdmissionPolicy MutatingAdmissionPolicyBinding
    MutatingWebhookConfiguration Namespace Node PersistentVolume PriorityClass
    PriorityLevelConfiguration ResourceSlice RuntimeClass SelfSubjectAccessReview
    SelfSubjectReview SelfSubjectRulesReview ServiceCIDR StorageClass StorageVersion
    StorageVersionMigration SubjectAccessReview TokenReview ValidatingAdmissionPolicy
    ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration VolumeAttachment
    VolumeAttributesClass
    """.split()  # noqa: SIM905 - a list of words reads better
)
_BUILT_IN_GROUPS = frozenset(["", "apps", "autoscaling", "batch", "policy"])
_REFUSED_MODULES = {
    "helm.sh": "Helm charts are not rendered by the twin: use plain objects",
    "yaml": "groups of YAML are not expanded by the twin: use CustomResource or typed objects",
    "kustomize": "kustomizations are not built by the twin: use plain objects",
}


def of_type(token: str) -> GroupVersionKind:
    """Return the API version and kind of a type token.

    Raises:
        ProviderError: the token is not of a Kubernetes object.
    """
    package, _, rest = token.partition(":")
    module, _, kind = rest.rpartition(":")
    group, _, version = module.partition("/")
    if package != "kubernetes" or not version or not kind:
        raise ProviderError(f"{token!r} is not the type of a Kubernetes object")
    for prefix, reason in _REFUSED_MODULES.items():
        if group == prefix:
            raise ProviderError(f"{token}: {reason}")
    if kind.endswith("List") and is_built_in(group):
        raise ProviderError(f"{token}: a list cannot be created; use the kind of its items")
    if kind.endswith("Patch") and is_built_in(group):
        raise ProviderError(f"{token}: the twin has no patch resources; manage the whole object")
    return GroupVersionKind(version if group in ("", "core") else f"{group}/{version}", kind)


def check(token: str, api_version: object, kind: object) -> GroupVersionKind:
    """Return the kind of a type token, after comparing it with the inputs.

    Raises:
        InvalidInput: the inputs have another kind.
    """
    wanted = of_type(token)
    if api_version is not None and api_version != wanted.api_version:
        raise InvalidInput(
            "apiVersion", f"must be {wanted.api_version!r} for {token}, got {api_version!r}"
        )
    if kind is not None and kind != wanted.kind:
        raise InvalidInput("kind", f"must be {wanted.kind!r} for {token}, got {kind!r}")
    return wanted


def is_built_in(group: str) -> bool:
    """Return whether a group is part of Kubernetes itself."""
    if group.endswith(".k8s.io"):
        # gateway.networking.k8s.io, snapshot.storage.k8s.io, … are CRDs: two labels before k8s.io
        return (
            group.count(".") == 2
            or group == "rbac.authorization.k8s.io"
            or group
            in (
                "flowcontrol.apiserver.k8s.io",
                "internal.apiserver.k8s.io",
            )
        )
    return group in _BUILT_IN_GROUPS or group == "core"


def is_namespaced(gvk: GroupVersionKind) -> bool | None:
    """Return whether a kind is namespaced; None if only the cluster knows."""
    if not is_built_in(gvk.group):
        return None
    return gvk.kind not in _CLUSTER_SCOPED
