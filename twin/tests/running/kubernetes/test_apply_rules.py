"""Writing of objects, by the rules of the official provider: one case for each.

Every docstring ends in the place of the rule in pulumi/pulumi-kubernetes v4.32.0, read 2026-11-22.
"""

import grpc
import pytest

from twin.wire.kube import KubeError

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(180)]
MANAGER = "pulumi.com/patchFieldManager"


def config_map(namespace, name="settings", annotations=None, **data):
    metadata = {"name": name, "namespace": namespace}
    if annotations:
        metadata["annotations"] = annotations
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def managers(plane, namespace, name="settings"):
    """Return who owns fields of a ConfigMap, with the operation."""
    live = plane.kube.get(f"/api/v1/namespaces/{namespace}/configmaps/{name}")
    return {(item["manager"], item["operation"]) for item in live["metadata"]["managedFields"]}


@pytest.fixture
def adopting(connect, plane):
    """Open providers that take existing objects over, as the stacks do."""
    return lambda **more: connect(kubeconfig=plane.kubeconfig, upsertExistingObjects="true", **more)


def test_a_created_object_is_one_without_apply_until_its_first_update(client, plane, namespace):
    """Source: provider/pkg/await/await.go, Creation and fixCSAFieldManagers."""
    client.create(config_map(namespace, color="red"))
    assert managers(plane, namespace) == {("pulumi-kubernetes", "Update")}
    outputs = client.update(config_map(namespace, color="blue"))
    assert managers(plane, namespace) == {(outputs["__fieldManager"], "Apply")}


def test_every_object_has_a_manager_of_its_own_that_its_state_keeps(adopting, plane, namespace):
    """Source: provider/pkg/provider/provider.go, fieldManagerName and checkpointObject."""
    client = adopting()
    _, first = client.create(config_map(namespace, color="red"))
    _, second = client.create(config_map(namespace, "other", color="red"))
    assert first["__fieldManager"] != second["__fieldManager"]
    assert managers(plane, namespace) == {(first["__fieldManager"], "Apply")}
    again = client.update(config_map(namespace, color="blue"))
    assert again["__fieldManager"] == first["__fieldManager"]
    assert again["__inputs"] == config_map(namespace, color="blue")
    assert again["__initialApiVersion"] == "v1"


def test_a_refresh_keeps_the_manager(adopting, namespace):
    """Source: provider/pkg/provider/provider.go, Read."""
    client, wanted = adopting(), config_map(namespace, color="red")
    identity, made = client.create(wanted)
    _, outputs, inputs = client.read(identity, wanted)
    assert outputs["__fieldManager"] == made["__fieldManager"]
    assert outputs["__inputs"] == inputs == wanted


def test_the_annotation_names_the_manager_and_the_one_before_gives_its_fields_up(
    adopting, plane, namespace
):
    """Source: provider/pkg/provider/provider.go, Update (ssa.Relinquish)."""
    client = adopting()
    client.create(config_map(namespace, color="red"))
    client.update(config_map(namespace, annotations={MANAGER: "mine"}, color="red"))
    assert managers(plane, namespace) == {("mine", "Apply")}


def test_an_object_of_a_run_that_was_lost_conflicts_when_it_changes(adopting, namespace):
    """Source: provider/pkg/await/await.go, handleSSAErr."""
    _, lost = adopting().create(config_map(namespace, color="red"))
    client = adopting()
    _, taken = client.create(config_map(namespace, color="red"))
    with pytest.raises(grpc.RpcError) as refused:
        client.update(config_map(namespace, color="blue"))
    details = refused.value.details() or ""
    assert "server-side apply field conflict detected, see https://www.pulumi.com/" in details
    assert (
        f'The resource managed by field manager "{taken["__fieldManager"]}" had an apply conflict: '
        f'Apply failed with 1 conflict: conflict with "{lost["__fieldManager"]}": .data.color'
    ) in details


def test_an_object_of_a_lost_run_with_the_same_manager_changes_and_loses_fields(
    adopting, plane, namespace
):
    """Source: provider/pkg/provider/provider.go, fieldManagerName (the annotation counts first)."""
    named = {MANAGER: "mine"}
    adopting().create(config_map(namespace, annotations=named, color="red", size="3"))
    client = adopting()
    client.create(config_map(namespace, annotations=named, color="red", size="3"))
    client.update(config_map(namespace, annotations=named, color="blue"))
    live = plane.kube.get(f"/api/v1/namespaces/{namespace}/configmaps/settings")
    assert live["data"] == {"color": "blue"}


def test_what_force_takes_over_stays_when_the_program_drops_it(adopting, plane, namespace):
    """Source: provider/pkg/await/await.go, patchForce (the lost manager keeps its fields)."""
    adopting().create(config_map(namespace, color="red", size="3"))
    client = adopting(enablePatchForce="true")
    client.create(config_map(namespace, color="red", size="3"))
    client.update(config_map(namespace, color="blue"))
    live = plane.kube.get(f"/api/v1/namespaces/{namespace}/configmaps/settings")
    assert live["data"] == {"color": "blue", "size": "3"}


def test_the_annotation_for_force_takes_fields_over(adopting, plane, namespace):
    """Source: provider/pkg/await/await.go, patchForce."""
    client = adopting()
    client.create(config_map(namespace, color="red"))
    plane.kube.apply(config_map(namespace, color="green"), manager="somebody", force=True)
    forced = {"pulumi.com/patchForce": "true"}
    outputs = client.update(config_map(namespace, annotations=forced, color="blue"))
    assert outputs["data"] == {"color": "blue"}


def test_fields_that_kubectl_edited_are_taken_over_without_a_conflict(adopting, plane, namespace):
    """Source: provider/pkg/await/await.go, fixCSAFieldManagers."""
    client = adopting()
    client.create(config_map(namespace, color="red"))
    path = f"/api/v1/namespaces/{namespace}/configmaps/settings"
    plane.kube.patch(path, {"data": {"color": "green"}}, fieldManager="kubectl-edit")
    assert client.update(config_map(namespace, color="blue"))["data"] == {"color": "blue"}


def test_an_update_of_an_object_that_is_gone_fails(client, plane, namespace):
    """Source: provider/pkg/await/await.go, Update (client.Get comes first)."""
    client.create(config_map(namespace, color="red"))
    plane.kube.delete(f"/api/v1/namespaces/{namespace}/configmaps/settings")
    with pytest.raises(grpc.RpcError, match="not found"):
        client.update(config_map(namespace, color="blue"))
    with pytest.raises(KubeError):
        plane.kube.get(f"/api/v1/namespaces/{namespace}/configmaps/settings")


def test_a_preview_of_a_creation_that_takes_over_forces(adopting, plane, namespace):
    """Source: provider/pkg/await/await.go, patchForce (no live object in a preview)."""
    plane.kube.apply(config_map(namespace, color="green"), manager="somebody")
    _, outputs = adopting().create(config_map(namespace, color="blue"), preview=True)
    assert outputs["data"] == {"color": "blue"}
    live = plane.kube.get(f"/api/v1/namespaces/{namespace}/configmaps/settings")
    assert live["data"] == {"color": "green"}
    with pytest.raises(grpc.RpcError, match=r'conflict with "somebody": \.data\.color'):
        adopting().create(config_map(namespace, color="blue"))


def test_skip_await_ends_the_wait_for_a_delete_of_workloads_only(client, plane, namespace):
    """Source: provider/pkg/metadata/overrides.go, allowsSkipAwaitWithDelete."""
    wanted = config_map(namespace, annotations={"pulumi.com/skipAwait": "true"})
    wanted["metadata"]["finalizers"] = ["example.com/hold"]
    identity, _ = client.create(wanted)
    with pytest.raises(grpc.RpcError, match="still there after 1 s"):
        client.delete(identity, wanted, timeout=1)
    path = f"/api/v1/namespaces/{namespace}/configmaps/settings"
    plane.kube.patch(path, {"metadata": {"finalizers": []}})
