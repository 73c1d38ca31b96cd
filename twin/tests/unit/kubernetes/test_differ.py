"""Changes of objects, including replacements."""

import copy

import pytest

from twin.providers.kubernetes.manifests import differ, fields
from twin.providers.kubernetes.manifests.immutable import replacing_paths


def obj(api_version, kind, **rest):
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "x", "namespace": "serving"},
        **rest,
    }


def compare(old, new, ignored=()):
    return differ.compare(
        old, new, replacing=replacing_paths(new), ignored=[fields.parse(p) for p in ignored]
    )


def changed(base, path, value):
    result = copy.deepcopy(base)
    fields.put(result, fields.parse(path), value)
    return result


JOB = obj("batch/v1", "Job", spec={"template": {"spec": {"containers": [{"image": "a"}]}}})
DEPLOYMENT = obj(
    "apps/v1",
    "Deployment",
    spec={"replicas": 1, "selector": {"matchLabels": {"app": "x"}}, "template": {}},
)
SERVICE = obj("v1", "Service", spec={"clusterIP": "None", "ports": [{"port": 80}]})
CLAIM = obj("v1", "PersistentVolumeClaim", spec={"storageClassName": "a"})
CLASS = obj("storage.k8s.io/v1", "StorageClass", provisioner="a", parameters={"type": "x"})
BINDING = obj("rbac.authorization.k8s.io/v1", "RoleBinding", roleRef={"name": "a"})
CONFIG_MAP = obj("v1", "ConfigMap", data={"k": "1"})
SECRET = obj("v1", "Secret", type="Opaque", stringData={"k": "1"})
POD = obj("v1", "Pod", spec={"containers": [{"image": "a"}]})


@pytest.mark.parametrize(
    ("base", "path"),
    [
        (DEPLOYMENT, "metadata.name"),
        (DEPLOYMENT, "metadata.namespace"),
        (DEPLOYMENT, "kind"),
        (DEPLOYMENT, "spec.selector.matchLabels.app"),
        (JOB, "spec.template.spec.containers[0].image"),
        (SERVICE, "spec.clusterIP"),
        (CLAIM, "spec.storageClassName"),
        (CLASS, "provisioner"),
        (CLASS, "parameters.type"),
        (BINDING, "roleRef.name"),
        (CONFIG_MAP, "data.k"),
        (SECRET, "stringData.k"),
        (SECRET, "type"),
        (POD, "spec.containers[0].image"),
    ],
)
def test_a_change_of_an_immutable_field_replaces(base, path):
    assert compare(base, changed(base, path, "other")).replaces == [path]


@pytest.mark.parametrize(
    ("base", "path", "value"),
    [
        (DEPLOYMENT, "spec.replicas", 2),
        (DEPLOYMENT, "spec.template.spec", {"containers": []}),
        (SERVICE, "spec.ports[0].port", 81),
        (CLAIM, "spec.resources", {}),
        (CLASS, "allowVolumeExpansion", True),
        (CONFIG_MAP, "metadata.labels", {"a": "b"}),
    ],
)
def test_any_other_change_updates_in_place(base, path, value):
    difference = compare(base, changed(base, path, value))
    assert len(difference.changes) == 1
    assert difference.replaces == []


def test_a_config_map_the_provider_may_change_is_updated_in_place():
    new = changed(CONFIG_MAP, "data.k", "2")
    paths = replacing_paths(new, mutable_config_maps=True)
    assert differ.compare(CONFIG_MAP, new, replacing=paths, ignored=[]).replaces == []


def test_an_immutable_config_map_is_replaced_even_then():
    new = {**changed(CONFIG_MAP, "data.k", "2"), "immutable": True}
    paths = replacing_paths(new, mutable_config_maps=True)
    assert "data.k" in differ.compare(CONFIG_MAP, new, replacing=paths, ignored=[]).replaces


def test_an_object_with_a_given_name_is_deleted_before_it_is_replaced():
    assert compare(CONFIG_MAP, changed(CONFIG_MAP, "data.k", "2")).delete_before_replace


def test_an_object_with_an_automatic_name_is_replaced_first_and_deleted_then():
    new = changed(CONFIG_MAP, "data.k", "2")
    new["metadata"]["annotations"] = {"pulumi.com/autonamed": "true"}
    assert not compare(CONFIG_MAP, new).delete_before_replace


def test_an_object_that_moves_to_another_namespace_is_not_deleted_first():
    moved = compare(CONFIG_MAP, changed(CONFIG_MAP, "metadata.namespace", "b"))
    assert moved.replaces == ["metadata.namespace"]
    assert not moved.delete_before_replace


def test_no_namespace_and_the_default_namespace_are_the_same():
    old = {**CONFIG_MAP, "metadata": {"name": "x"}}
    new = {**CONFIG_MAP, "metadata": {"name": "x", "namespace": "default"}}
    assert compare(old, new).changes == ()


def test_ignored_paths_and_what_lies_below_them_are_no_change():
    new = changed(DEPLOYMENT, "spec.template", {"metadata": {"labels": {"a": "b"}}})
    assert compare(DEPLOYMENT, new, ignored=("spec.template",)).changes == ()


def test_list_items_that_come_and_go_are_named_by_their_index():
    old = obj("v1", "Pod", spec={"tolerations": [{"key": "a"}, {"key": "b"}]})
    new = obj("v1", "Pod", spec={"tolerations": [{"key": "a"}]})
    (change,) = compare(old, new).changes
    assert (fields.render(change.path), change.kind) == ("spec.tolerations[1]", "delete")
