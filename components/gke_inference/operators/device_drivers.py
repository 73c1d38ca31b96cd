"""DRA drivers, which publish the chips of nodes as devices that pods can claim."""

from collections.abc import Iterator
from typing import Annotated, Final, TypedDict

import pulumi
from pydantic import Field

from gke_inference.base.checked import checked, keep
from gke_inference.base.inputs import under
from gke_inference.base.manifests import (
    Manifest,
    labels_for,
    manifest,
    privileged_daemon_set,
    register,
    role_binding,
    service_account,
)
from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import join, one_of
from gke_inference.catalogue.versions import api
from gke_inference.namespace.serving_namespace import namespace_object

from .device_driver_pods import gpu_plugin, nvidia_installer, tpu_plugin

DEVICE_CLASSES: Final = {"gpu": "gpu.nvidia.com", "tpu": "tpu.google.com"}
"""Name of the DeviceClass, and of the driver that publishes its devices, by kind of accelerator."""

_COMPONENT: Final = "device-driver"
_NAMES: Final = {"gpu": "dra-driver-nvidia-gpu", "tpu": "dra-driver-google-tpu"}
_INSTALLER: Final = "nvidia-driver-installer"
_INSTALLER_NAMESPACE: Final = "kube-system"

_SELECTORS: Final = {
    "gpu": "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'",
    "tpu": "device.driver == 'tpu.google.com'",
}
_READ: Final = ["get", "list", "watch"]


class DeviceDriversArgs(TypedDict):
    """Inputs of `DeviceDrivers`."""

    kinds: Annotated[list[str], Field(min_length=1)]
    """Kinds of accelerators to install drivers for: `gpu`, `tpu` or both."""


class DeviceDrivers(pulumi.ComponentResource):
    """The DRA drivers of a cluster, their DeviceClasses, and the installer of the NVIDIA driver.

    Create one for each cluster, unless the drivers are already installed. GKE does not install
    them. Its documentation and the ai-on-gke tutorials use the charts that these objects come from
    (dra-driver-google-tpu v0.1.0, dra-driver-nvidia-gpu v0.4.0, and the driver installer for
    Container-Optimized OS). The drivers run on nodes of an `AcceleratorPool` with `device_claims`.
    Pass the cluster's Kubernetes provider in `opts`.
    """

    device_classes: dict[str, str]
    """Name of the DeviceClass by kind of accelerator."""

    def __init__(
        self, name: str, args: DeviceDriversArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:DeviceDrivers", name, {}, opts)
        args = checked(DeviceDriversArgs, args)
        keep(_problems(args["kinds"]))
        kinds = sorted(args["kinds"])
        for kind in kinds:
            space = register(f"{name}-{kind}-namespace", driver_namespace(kind), under(self))
            inside = under(self, depends_on=[space])
            for role, obj in driver_objects(kind).items():
                register(f"{name}-{kind}-{role}", obj, inside)
        self.device_classes = {kind: DEVICE_CLASSES[kind] for kind in kinds}
        self.register_outputs({"deviceClasses": self.device_classes})


def _problems(kinds: list[str]) -> Iterator[InputError]:
    for at, kind in enumerate(kinds):
        if kind not in _NAMES:
            yield one_of(join("kinds", at), kind, _NAMES)
        elif kind in kinds[:at]:
            yield InputError(join("kinds", at), "must be in the list only once", kind)


def driver_namespace(kind: str) -> Manifest:
    """Return the namespace of a driver: privileged, as its pods write to folders of the node."""
    return namespace_object(_NAMES[kind], "privileged")


def driver_objects(kind: str) -> dict[str, Manifest]:
    """Return the objects of a driver by their role, without its namespace."""
    name = _NAMES[kind]
    labels = labels_for(name, _COMPONENT)
    plugin = {"gpu": gpu_plugin, "tpu": tpu_plugin}[kind]
    found = {
        "account": manifest("service_account", name, name, labels=labels),
        "may": manifest("cluster_role", name, labels=labels, rules=_rules()),
        "binding": role_binding(name, name, [service_account(name, name)], labels=labels),
        "own-slices": _own_slices(name, labels),
        "own-slices-binding": manifest(
            "validating_admission_policy_binding",
            f"{name}-own-slices",
            labels=labels,
            spec={"policyName": f"{name}-own-slices", "validationActions": ["Deny"]},
        ),
        "class": manifest(
            "device_class",
            DEVICE_CLASSES[kind],
            labels=labels,
            spec={"selectors": [{"cel": {"expression": _SELECTORS[kind]}}]},
        ),
        "plugin": _daemon_set(name, name, plugin(name)),
    }
    if kind == "gpu":
        found["installer"] = _daemon_set(_INSTALLER, _INSTALLER_NAMESPACE, nvidia_installer())
    return found


def _rules() -> list[Manifest]:
    group = api("resource_slice").group
    return [
        {"apiGroups": [group], "resources": ["resourceclaims"], "verbs": _READ},
        {
            "apiGroups": [group],
            "resources": ["resourceslices"],
            "verbs": [*_READ, "create", "delete", "patch", "update"],
        },
        {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": _READ},
    ]


def _own_slices(name: str, labels: dict[str, str]) -> Manifest:
    """Return the policy that lets a driver's pod publish only the devices of its own node."""
    user = f"system:serviceaccount:{name}:{name}"
    node = "request.userInfo.extra[?'authentication.kubernetes.io/node-name'][0].orValue('')"
    changed = "(request.operation == 'DELETE' ? oldObject : object).spec.?nodeName.orValue('')"
    return manifest(
        "validating_admission_policy",
        f"{name}-own-slices",
        labels=labels,
        spec={
            "failurePolicy": "Fail",
            "matchConditions": [
                {"expression": f"request.userInfo.username == '{user}'", "name": "is-the-driver"}
            ],
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [api("resource_slice").group],
                        "apiVersions": ["*"],
                        "operations": ["CREATE", "DELETE", "UPDATE"],
                        "resources": ["resourceslices"],
                    }
                ]
            },
            "validations": [
                {
                    "expression": f"{node} != '' && {node} == {changed}",
                    "message": "a driver may change only the slices of its own node",
                }
            ],
        },
    )


def _daemon_set(name: str, namespace: str, pod: Manifest) -> Manifest:
    because = "the driver of a device writes to folders and kernel interfaces of its node"
    return privileged_daemon_set(name, namespace, _COMPONENT, pod, because=because)
