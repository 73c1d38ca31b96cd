"""Fields whose change replaces the object, as in the official provider.

Source: pulumi-kubernetes, provider/pkg/provider/diff.go (2026-07). All other fields are updated in
place; the API server rejects changes that are not possible.
"""

from typing import Any

from twin.providers.kubernetes.manifests import fields
from twin.providers.kubernetes.manifests.fields import Path

_SELECTOR = ("spec.selector",)
_POD_SPEC = """
    affinity automountServiceAccountToken dnsConfig dnsPolicy enableServiceLinks hostAliases hostIPC
    hostNetwork hostPID hostname imagePullSecrets nodeName nodeSelector overhead preemptionPolicy
    priority priorityClassName readinessGates restartPolicy runtimeClassName schedulerName
    securityContext serviceAccount serviceAccountName shareProcessNamespace subdomain
    terminationGracePeriodSeconds volumes
""".split()  # noqa: SIM905 - a list of words reads better
_CONTAINER = """
    args command env image imagePullPolicy lifecycle livenessProbe ports readinessProbe resources
    securityContext stdin stdinOnce terminationMessagePath terminationMessagePolicy tty
    volumeDevices volumeMounts workingDir
""".split()  # noqa: SIM905 - a list of words reads better
_PERSISTENT_VOLUME = """
    awsElasticBlockStore azureDisk azureFile cephfs cinder csi fc flexVolume flocker
    gcePersistentDisk glusterfs hostPath iscsi local nfs photonPersistentDisk portworxVolume quobyte
    rbd scaleIO storageos vsphereVolume
""".split()  # noqa: SIM905 - a list of words reads better

_BY_KIND: dict[tuple[str, str], tuple[str, ...]] = {
    ("apps", "DaemonSet"): _SELECTOR,
    ("apps", "Deployment"): _SELECTOR,
    ("apps", "StatefulSet"): (
        *_SELECTOR,
        "spec.podManagementPolicy",
        "spec.revisionHistoryLimit",
        "spec.serviceName",
        "spec.volumeClaimTemplates",
    ),
    ("batch", "Job"): (*_SELECTOR, "spec.completions", "spec.parallelism", "spec.template"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): ("roleRef",),
    ("rbac.authorization.k8s.io", "RoleBinding"): ("roleRef",),
    ("storage.k8s.io", "StorageClass"): ("parameters", "provisioner"),
    ("", "PersistentVolume"): tuple(f"spec.{name}" for name in _PERSISTENT_VOLUME),
    ("", "PersistentVolumeClaim"): (
        *_SELECTOR,
        "spec.accessModes",
        "spec.storageClassName",
        "spec.volumeName",
    ),
    ("", "Pod"): (
        *(f"spec.{name}" for name in _POD_SPEC),
        *(f"spec.{c}[*].{name}" for c in ("containers", "initContainers") for name in _CONTAINER),
    ),
    ("", "ResourceQuota"): ("spec.scopes",),
    ("", "Service"): ("spec.clusterIP",),
}


def replacing_paths(
    obj: dict[str, Any], *, mutable_config_maps: bool = False, mutable_secrets: bool = False
) -> list[Path]:
    """Return the patterns of paths whose change replaces an object of this kind.

    Args:
        obj: new inputs.
        mutable_config_maps: the provider's `enableConfigMapMutable`; without it, a change of data
            replaces a ConfigMap, so that pods roll out with a new name.
        mutable_secrets: the provider's `enableSecretMutable`.
    """
    api_version, kind = str(obj.get("apiVersion")), str(obj.get("kind"))
    group = api_version.rpartition("/")[0]
    paths = ["metadata.name", "metadata.namespace", "kind", *_BY_KIND.get((group, kind), ())]
    fixed = bool(obj.get("immutable"))
    if (group, kind) == ("", "Secret"):
        paths.append("type")
        if fixed or not mutable_secrets:
            paths += ["data", "stringData"]
    if (group, kind) == ("", "ConfigMap") and (fixed or not mutable_config_maps):
        paths += ["data", "binaryData"]
    return [fields.parse(path) for path in paths]
