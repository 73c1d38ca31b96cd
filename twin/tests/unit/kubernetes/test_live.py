"""Live objects in the shape of the inputs, ownership, names and kinds."""

import pytest

from twin.providers.kubernetes.manifests import kinds, live, naming, objects, ownership
from twin.providers.kubernetes.manifests.errors import InvalidInput, ProviderError
from twin.wire.property_values import SECRET_SIGNATURE, SIGNATURE_KEY, UNKNOWN


def shaped(found, inputs):
    metadata = {"metadata": {"name": "x"}}
    return live.shaped({**metadata, **found}, {**metadata, **inputs})


def test_fields_the_program_did_not_set_are_left_out():
    assert shaped({"spec": {"a": 1, "b": 2}}, {"spec": {"a": 1}})["spec"] == {"a": 1}


def test_a_changed_field_shows_its_live_value_and_a_lost_one_is_gone():
    found = shaped({"spec": {"a": 2}}, {"spec": {"a": 1, "b": 3}})
    assert found["spec"] == {"a": 2}


def test_an_empty_value_that_the_server_does_not_keep_is_no_drift():
    inputs = {"spec": {"emptyDir": {}, "hostNetwork": False, "args": []}}
    assert shaped({"spec": {}}, inputs)["spec"] == inputs["spec"]


def test_items_that_others_added_to_a_named_list_are_left_out():
    inputs = {"env": [{"name": "A", "value": "1"}]}
    found = {"env": [{"name": "INJECTED", "value": "9"}, {"name": "A", "value": "2"}]}
    assert shaped(found, inputs)["env"] == [{"name": "A", "value": "2"}]


def test_a_longer_plain_list_is_drift():
    assert shaped({"args": ["a", "b"]}, {"args": ["a"]})["args"] == ["a", "b"]


def test_string_data_of_a_secret_is_compared_with_what_is_stored():
    inputs = {"kind": "Secret", "stringData": {"key": "hush"}}
    found = {"kind": "Secret", "data": {"key": "bG91ZA=="}}
    assert shaped(found, inputs)["stringData"] == {"key": "loud"}


MANAGED = {
    "metadata": {
        "managedFields": [
            {"manager": "ours", "fieldsV1": {"f:spec": {"f:template": {}}}},
            {
                "manager": "autoscaler",
                "fieldsV1": {
                    "f:spec": {
                        "f:replicas": {},
                        "f:containers": {'k:{"name":"main"}': {"f:image": {}}},
                    }
                },
            },
        ]
    },
    "spec": {"replicas": 5, "template": "t", "containers": [{"name": "main", "image": "live"}]},
}


def test_an_ignored_field_that_only_another_manager_owns_is_not_sent():
    wanted = {"spec": {"replicas": 1, "template": "t"}}
    sent = ownership.leave_ignored(wanted, MANAGED, [("spec", "replicas")], "ours")
    assert sent == {"spec": {"template": "t"}}
    assert wanted["spec"]["replicas"] == 1


def test_an_ignored_field_that_we_own_is_sent_as_it_lives():
    sent = ownership.leave_ignored(
        {"spec": {"template": "new"}}, MANAGED, [("spec", "template")], "ours"
    )
    assert sent == {"spec": {"template": "t"}}


def test_a_list_item_is_found_by_its_key_and_a_star_names_every_item():
    path = ("spec", "containers", 0, "image")
    assert ownership.owners(MANAGED, path) == {"autoscaler"}
    wanted = {"spec": {"containers": [{"name": "main", "image": "mine"}]}}
    sent = ownership.leave_ignored(wanted, MANAGED, [("spec", "containers", "*", "image")], "ours")
    assert sent == {"spec": {"containers": [{"name": "main"}]}}


def test_a_name_is_made_up_from_the_logical_name_and_marked():
    obj = {}
    naming.assign(obj, {}, "settings", b"seed")
    assert obj["metadata"]["name"].startswith("settings-")
    assert obj["metadata"]["annotations"] == {"pulumi.com/autonamed": "true"}


def test_the_same_seed_makes_the_same_name():
    first, second = {}, {}
    naming.assign(first, {}, "settings", b"seed")
    naming.assign(second, {}, "settings", b"seed")
    assert first == second


def test_a_made_up_name_is_kept_in_the_next_update():
    old = {}
    naming.assign(old, {}, "settings", b"seed")
    new = {}
    naming.assign(new, old, "settings", b"another")
    assert new == old


def test_a_given_name_is_not_touched_and_a_generated_one_refused():
    obj = {"metadata": {"name": "mine"}}
    naming.assign(obj, {}, "settings", b"seed")
    assert obj == {"metadata": {"name": "mine"}}
    with pytest.raises(ProviderError, match=r"metadata\.generateName"):
        naming.assign({"metadata": {"generateName": "x-"}}, {}, "settings", b"")


def test_unknown_metadata_is_left_unknown():
    obj = {"metadata": UNKNOWN}
    naming.assign(obj, {}, "settings", b"seed")
    assert obj == {"metadata": UNKNOWN}


@pytest.mark.parametrize(
    ("token", "api_version", "kind"),
    [
        ("kubernetes:apps/v1:Deployment", "apps/v1", "Deployment"),
        ("kubernetes:core/v1:ConfigMap", "v1", "ConfigMap"),
        ("kubernetes:cloud.google.com/v1:ComputeClass", "cloud.google.com/v1", "ComputeClass"),
    ],
)
def test_a_type_token_says_api_version_and_kind(token, api_version, kind):
    assert kinds.of_type(token) == (api_version, kind)


@pytest.mark.parametrize(
    "token",
    [
        "kubernetes:helm.sh/v3:Release",
        "kubernetes:yaml/v2:ConfigGroup",
        "gcp:a/b:C",
        "kubernetes:core/v1:ConfigMapList",
        "kubernetes:apps/v1:DeploymentPatch",
    ],
)
def test_types_that_are_no_plain_object_are_refused(token):
    with pytest.raises(ProviderError):
        kinds.of_type(token)


def test_inputs_that_contradict_their_type_are_refused_by_property():
    with pytest.raises(InvalidInput) as refused:
        kinds.check("kubernetes:apps/v1:Deployment", "apps/v1beta1", "Deployment")
    assert refused.value.property_path == "apiVersion"


def test_scope_is_known_for_kinds_of_kubernetes_and_left_to_the_cluster_for_others():
    assert kinds.is_namespaced(kinds.GroupVersionKind("v1", "Namespace")) is False
    assert kinds.is_namespaced(kinds.GroupVersionKind("apps/v1", "Deployment")) is True
    gateway = kinds.GroupVersionKind("gateway.networking.k8s.io/v1", "Gateway")
    assert kinds.is_namespaced(gateway) is None


def test_secrets_in_the_inputs_are_secrets_in_the_outputs():
    secret = {SIGNATURE_KEY: SECRET_SIGNATURE, "value": "hush"}
    inputs = {"spec": {"args": ["a", secret]}}
    found = {"metadata": {"name": "x"}, "spec": {"args": ["a", "hush", "b"]}}
    assert objects.to_outputs(found, inputs, "m")["spec"]["args"] == ["a", secret, "b"]
    assert objects.to_object(inputs) == {"spec": {"args": ["a", "hush"]}}
