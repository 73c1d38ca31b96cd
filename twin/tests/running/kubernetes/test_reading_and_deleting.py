"""Refresh, import and delete on a real API server, and how clusters are reached."""

import json
import os
import time

import grpc
import pytest

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(120)]


def config_map(namespace, **metadata):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": namespace, **metadata},
        "data": {"colour": "red"},
    }


def deployment(namespace):
    labels = {"app": "server"}
    resources = {"limits": {"cpu": "0.5", "memory": "1024Mi"}}
    container = {
        "name": "main",
        "image": "example.com/main:1.0",
        "resources": resources,
        "env": [{"name": "A", "value": "1"}],
        "volumeMounts": [{"name": "cache", "mountPath": "/cache", "readOnly": False}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "server",
            "namespace": namespace,
            "annotations": {"pulumi.com/skipAwait": "true"},
        },
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [container],
                    "volumes": [{"name": "cache", "emptyDir": {}}],
                },
            },
        },
    }


def test_a_refresh_of_an_untouched_object_finds_its_inputs_as_they_were(client, namespace):
    wanted = deployment(namespace)
    identity, _ = client.create(wanted)
    assert client.read(identity, wanted)[2] == wanted


def test_a_refresh_finds_the_drift_of_a_field_the_program_set(client, plane, namespace):
    wanted = config_map(namespace)
    identity, _ = client.create(wanted)
    path = f"/api/v1/namespaces/{namespace}/configmaps/settings"
    plane.kube.patch(path, {"data": {"colour": "green", "extra": "not ours"}})
    _, outputs, inputs = client.read(identity, wanted)
    assert inputs["data"] == {"colour": "green"}
    assert outputs["data"] == {"colour": "green", "extra": "not ours"}


def test_a_refresh_of_an_object_that_is_gone_finds_nothing(client, namespace):
    identity, outputs, _ = client.read(f"{namespace}/settings", config_map(namespace))
    assert identity == ""
    assert outputs == {}


def test_an_import_finds_inputs_without_what_the_server_sets(client, plane, namespace):
    wanted = config_map(namespace)
    plane.kube.apply(wanted, manager="somebody")
    identity, _, inputs = client.read(f"{namespace}/settings", wanted, known=False)
    assert identity == f"{namespace}/settings"
    assert inputs == wanted


def test_a_deleted_object_is_gone_when_the_call_returns(client, plane, namespace):
    wanted = config_map(namespace)
    identity, _ = client.create(wanted)
    client.delete(identity, wanted)
    assert client.read(identity, wanted)[0] == ""


def test_deleting_what_is_gone_already_succeeds(client, namespace):
    client.delete(f"{namespace}/settings", config_map(namespace))
    assert client.read(f"{namespace}/settings", config_map(namespace))[0] == ""


def test_a_delete_that_a_finalizer_holds_names_it_when_time_is_up(client, plane, namespace):
    wanted = config_map(namespace, finalizers=["example.com/hold"])
    identity, _ = client.create(wanted)
    with pytest.raises(grpc.RpcError) as held:
        client.delete(identity, wanted, timeout=2)
    assert "still there after 2 s" in str(held.value)
    assert "example.com/hold" in str(held.value)
    path = f"/api/v1/namespaces/{namespace}/configmaps/settings"
    plane.kube.patch(path, {"metadata": {"finalizers": []}})


def test_a_namespace_that_stays_terminating_says_what_is_left_in_it(client, plane):
    name = plane.namespace()
    wanted = config_map(name, finalizers=["example.com/hold"])
    client.create(wanted)
    obj = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    with pytest.raises(grpc.RpcError) as held:
        client.delete(name, obj, timeout=12)
    plane.kube.patch(
        f"/api/v1/namespaces/{name}/configmaps/settings", {"metadata": {"finalizers": []}}
    )
    assert "example.com/hold" in str(held.value)


def test_the_propagation_annotation_leaves_dependents_to_the_garbage_collector(
    client, plane, namespace
):
    wanted = deployment(namespace)
    wanted["metadata"]["annotations"]["pulumi.com/deletionPropagationPolicy"] = "orphan"
    identity, _ = client.create(wanted)
    sets = f"/apis/apps/v1/namespaces/{namespace}/replicasets"
    end = time.monotonic() + 15
    while not plane.kube.list(sets) and time.monotonic() < end:
        time.sleep(0.1)
    client.delete(identity, wanted)
    time.sleep(1)
    assert len(plane.kube.list(sets)) == 1


def test_a_cluster_that_does_not_answer_is_reported_fast_and_previews_still_work(connect):
    nowhere = """
apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: c, user: {}}]
contexts: [{name: c, context: {cluster: c, user: c}}]
"""
    client = connect(kubeconfig=nowhere)
    wanted = config_map("default")
    start = time.monotonic()
    assert client.create(wanted, preview=True) == ("", wanted)
    with pytest.raises(grpc.RpcError, match="cannot be reached"):
        client.create(wanted)
    assert time.monotonic() - start < 10


def test_objects_of_a_lost_cluster_are_forgotten_only_when_the_provider_says_so(connect):
    kubeconfig = (
        '{"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", '
        '"user": "c"}}], "users": [{"name": "c", "user": {}}], "clusters": [{"name": "c", '
        '"cluster": {"server": "http://127.0.0.1:9"}}]}'
    )
    wanted = config_map("default")
    with pytest.raises(grpc.RpcError, match="cannot be reached"):
        connect(kubeconfig=kubeconfig).delete("default/settings", wanted)
    forgetting = connect(kubeconfig=kubeconfig, deleteUnreachable="true")
    forgetting.delete("default/settings", wanted)
    assert forgetting.read("default/settings", wanted)[0] == ""


def test_a_credential_plugin_and_the_authorities_of_the_environment_are_used(
    connect, plane, namespace, tmp_path, monkeypatch
):
    config = json.loads(plane.kubeconfig)
    token = config["users"][0]["user"]["token"]
    answer = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "kind": "ExecCredential",
        "status": {"token": token},
    }
    plugin = tmp_path / "gke-gcloud-auth-plugin"
    plugin.write_text(f"#!/bin/sh\necho '{json.dumps(answer)}'\n")
    plugin.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SSL_CERT_FILE", str(plane.authority))
    config["users"][0]["user"] = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1beta1",
            "command": "gke-gcloud-auth-plugin",
            "interactiveMode": "Never",
            "provideClusterInfo": True,
        }
    }
    del config["clusters"][0]["cluster"]["certificate-authority"]
    client = connect(kubeconfig=json.dumps(config))
    identity, _ = client.create(config_map(namespace))
    assert identity == f"{namespace}/settings"
