"""Creating and updating objects on a real API server."""

import grpc
import pytest

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(120)]


def config_map(namespace, name="settings", **data):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": data,
    }


def deployment(namespace, name="server", **spec):
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "example.com/main:1.0"}]},
            },
            **spec,
        },
    }


def skipping_await(obj):
    obj["metadata"]["annotations"] = {"pulumi.com/skipAwait": "true"}
    return obj


def test_a_created_object_is_returned_as_it_lives_in_the_cluster(client, namespace):
    identity, outputs = client.create(config_map(namespace, colour="red"))
    assert identity == f"{namespace}/settings"
    assert outputs["data"] == {"colour": "red"}
    assert outputs["metadata"]["uid"]
    assert "managedFields" not in outputs["metadata"]


def test_a_misspelt_field_is_refused_by_name(client, namespace):
    with pytest.raises(grpc.RpcError) as refused:
        client.create(deployment(namespace, replcas=3))
    assert "spec.replcas" in str(refused.value)
    assert f"Deployment {namespace}/server" in str(refused.value)


def test_a_preview_refuses_a_misspelt_field_even_before_its_namespace_exists(client, plane):
    with pytest.raises(grpc.RpcError) as refused:
        client.create(deployment("not-yet-there", replcas=3), preview=True)
    assert "replcas" in str(refused.value)


def test_a_preview_of_an_object_in_a_namespace_to_come_shows_its_inputs(client, plane):
    wanted = deployment("not-yet-there")
    assert client.create(wanted, preview=True) == ("", wanted)


def test_a_preview_shows_defaults_and_leaves_unknown_what_only_the_server_decides(
    client, namespace
):
    _, outputs = client.create(deployment(namespace), preview=True)
    assert outputs["spec"]["strategy"]["type"] == "RollingUpdate"
    assert outputs["metadata"]["uid"] == "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
    assert "status" not in outputs


def test_a_preview_writes_nothing(client, plane, namespace):
    client.create(config_map(namespace, colour="red"), preview=True)
    names = [
        item["metadata"]["name"]
        for item in plane.kube.list(f"/api/v1/namespaces/{namespace}/configmaps")
    ]
    assert "settings" not in names


def test_a_preview_of_a_kind_the_same_update_will_bring_shows_its_inputs(client, plane):
    wanted = {
        "apiVersion": "example.com/v1",
        "kind": "Unheard",
        "metadata": {"name": "of"},
        "spec": {"size": 1},
    }
    assert client.create(wanted, preview=True) == ("", wanted)


def test_an_object_that_exists_already_is_not_taken_over(client, plane, namespace):
    client.create(config_map(namespace, colour="red"))
    with pytest.raises(grpc.RpcError) as refused:
        client.create(config_map(namespace, colour="blue"))
    assert "already exists" in str(refused.value)
    live = plane.kube.get(f"/api/v1/namespaces/{namespace}/configmaps/settings")
    assert live["data"] == {"colour": "red"}


def test_an_update_removes_what_the_program_no_longer_wants(client, namespace):
    client.create(config_map(namespace, colour="red", size="3"))
    assert client.update(config_map(namespace, colour="blue"))["data"] == {"colour": "blue"}


def test_replicas_an_autoscaler_owns_are_left_alone_when_the_program_ignores_them(
    client, plane, namespace
):
    client.create(skipping_await(deployment(namespace)))
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/server"
    plane.kube.patch(f"{path}/scale", {"spec": {"replicas": 5}}, fieldManager="autoscaler")
    wanted = skipping_await(deployment(namespace))
    wanted["spec"]["template"]["spec"]["containers"][0]["image"] = "example.com/main:2.0"
    outputs = client.update(wanted, ignore=("spec.replicas",))
    assert outputs["spec"]["replicas"] == 5
    assert outputs["spec"]["template"]["spec"]["containers"][0]["image"].endswith("2.0")


def test_replicas_nobody_else_owns_stay_as_they_are_when_the_program_ignores_them(
    client, namespace
):
    client.create(skipping_await(deployment(namespace, replicas=2)))
    outputs = client.update(
        skipping_await(deployment(namespace, replicas=7)), ignore=("spec.replicas",)
    )
    assert outputs["spec"]["replicas"] == 2


def test_a_secret_stays_secret_in_the_outputs(client, namespace):
    wanted = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "token", "namespace": namespace},
        "stringData": {"key": "hush"},
    }
    _, outputs = client.create(wanted)
    assert outputs["data"]["value"] == {"key": "aHVzaA=="}
    assert outputs["data"]["4dabf18193072939515e22adb298388d"]


def test_a_custom_object_waits_for_the_kind_that_the_cluster_installs_later(
    client, plane, namespace
):
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "lamps.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"kind": "Lamp", "plural": "lamps"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "x_kubernetes_preserve_unknown_fields": True,
                        }
                    },
                }
            ],
        },
    }
    lamp = {"apiVersion": "example.com/v1", "kind": "Lamp", "metadata": {"name": "hall"}}
    pending = client.stub.Create.future(create_request(client, lamp))
    with pytest.raises(grpc.FutureTimeoutError):
        pending.result(timeout=1.0)
    _, outputs = client.create(definition)
    schema = outputs["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema["x_kubernetes_preserve_unknown_fields"] is True
    assert pending.result(timeout=20).id == "hall"
    client.delete("lamps.example.com", definition)


def create_request(client, obj):
    from twin.wire import rpc  # noqa: PLC0415 - the one place that builds a raw request

    return rpc.provider_pb2.CreateRequest(urn=client.urn(obj), properties=rpc.to_struct(obj))
