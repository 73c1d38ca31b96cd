"""The tree of a serving stack: the same bytes each time, and nothing that must not be in git."""

import hashlib
import re

import pytest
import yaml

from scripts.delivery.tree import STACK, SUMS, tree_of, write_tree
from scripts.shared.preview_states import NOT_KNOWN
from scripts.terminal.console import CommandError

NEEDS = "gke-inference/weights"


def deployment(name="llama-gpu", **notes):
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "annotations": {"pulumi.com/skipAwait": "true", **notes},
            "name": name,
            "namespace": "search",
        },
        "spec": {"paused": False, "replicas": 2},
    }


def scaler(target="llama-gpu"):
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": target, "namespace": "search"},
        "spec": {"scaleTargetRef": {"kind": "Deployment", "name": target}},
    }


def config(name="engine", namespace="search", **data):
    return {
        "apiVersion": "v1",
        "data": data,
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
    }


def written(tree, ending):
    [text] = [text for path, text in tree.files.items() if path.endswith(ending)]
    return yaml.safe_load(text)


def test_the_same_objects_in_another_order_are_the_same_tree():
    objects = [config("a", x="1"), config("b"), deployment()]
    one = tree_of("s", "search", {"c/us": objects})
    other = tree_of("s", "search", {"c/us": objects[::-1]})
    assert one == other
    assert one.digest == other.digest
    assert list(one.files) == [
        f"c/us/{SUMS}",
        f"c/us/{STACK}",
        "c/us/configmap.core-a.yaml",
        "c/us/configmap.core-b.yaml",
        "c/us/deployment.apps-llama-gpu.yaml",
    ]
    assert one.objects == 3
    assert tree_of("s", "search", {"c/us": objects[:2]}).digest != one.digest


def test_the_sums_of_a_folder_are_those_of_its_files():
    tree = tree_of("s", "search", {"us": [config()]})
    digest = hashlib.sha256(tree.files["us/configmap.core-engine.yaml"].encode()).hexdigest()
    assert tree.files[f"us/{SUMS}"] == f"{digest}  configmap.core-engine.yaml\n"


def test_what_pulumi_alone_reads_is_left_out():
    tree = tree_of("s", "search", {"us": [deployment(own="kept")]})
    assert written(tree, "llama-gpu.yaml")["metadata"]["annotations"] == {"own": "kept"}
    assert (
        "annotations"
        not in written(tree_of("s", "search", {"us": [deployment()]}), "gpu.yaml")["metadata"]
    )


def test_replicas_that_something_in_the_cluster_decides_are_no_field_of_the_tree():
    alone = tree_of("s", "search", {"us": [deployment()]})
    assert written(alone, "llama-gpu.yaml")["spec"] == {"paused": False, "replicas": 2}
    scaled = tree_of("s", "search", {"us": [deployment(), scaler()]})
    assert written(scaled, "deployment.apps-llama-gpu.yaml")["spec"] == {"paused": False}
    gated = written(tree_of("s", "search", {"us": [deployment(**{NEEDS: "[]"})]}), "llama-gpu.yaml")
    assert gated["spec"] == {"paused": False}
    assert gated["metadata"]["annotations"] == {"gke-inference/delivered": "git", NEEDS: "[]"}


def test_what_delivers_the_tree_is_not_in_it():
    sync = {**config("repo-sync"), "kind": "RepoSync"}
    assert list(tree_of("s", "search", {"us": [sync, config()]}).files) == [
        f"us/{SUMS}",
        f"us/{STACK}",
        "us/configmap.core-engine.yaml",
    ]


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        ({**config("key"), "kind": "Secret"}, "Secret key: must not be in git; keep the value in"),
        (config(namespace="ads"), "ConfigMap engine: must be in the namespace search, got 'ads'"),
        (config(url=f"http://{NOT_KNOWN}/"), "ConfigMap engine: data.url must be known before"),
        (config(token="[secret]"), "ConfigMap engine: data.token must not be secret"),
    ],
)
def test_an_object_that_must_not_be_in_git_is_refused_by_its_name(obj, message):
    with pytest.raises(CommandError, match=re.escape(message)):
        tree_of("s", "search", {"us": [obj]})


def test_all_problems_are_named_at_once():
    objects = [{**config("key"), "kind": "Secret"}, config(namespace="ads")]
    with pytest.raises(CommandError, match=r"Secret key: .*; ConfigMap engine: "):
        tree_of("s", "search", {"us": objects})


def test_two_objects_of_one_name_are_refused():
    with pytest.raises(CommandError, match="us: must have only one object of each kind and name"):
        tree_of("s", "search", {"us": [config(x="1"), config(x="2")]})


def test_writing_twice_changes_nothing_and_what_is_gone_goes(tmp_path):
    (tmp_path / "README.md").write_text("mine")
    both = tree_of("s", "search", {"c/us": [config("a"), config("b")]})
    assert write_tree(both, tmp_path) is True
    assert write_tree(both, tmp_path) is False
    assert write_tree(tree_of("s", "search", {"c/us": [config("a")]}), tmp_path) is True
    assert sorted(file.name for file in (tmp_path / "c" / "us").iterdir()) == [
        SUMS,
        STACK,
        "configmap.core-a.yaml",
    ]
    assert (tmp_path / "README.md").read_text() == "mine"


def test_a_folder_that_render_did_not_write_is_left_alone(tmp_path):
    folder = tmp_path / "us"
    folder.mkdir()
    (folder / "mine.yaml").write_text("{}")
    with pytest.raises(CommandError, match="must be empty or written by render"):
        write_tree(tree_of("s", "search", {"us": [config()]}), tmp_path)
    assert [file.name for file in folder.iterdir()] == ["mine.yaml"]


def test_a_folder_of_another_stack_is_refused_and_left_alone(tmp_path):
    write_tree(tree_of("search", "search", {"us": [config("a")]}), tmp_path)
    message = "us must be from the stack 'other', got one of 'search'; give each stack its own"
    with pytest.raises(CommandError, match=re.escape(message)):
        write_tree(tree_of("other", "search", {"us": [config("b")]}), tmp_path)
    assert (tmp_path / "us" / "configmap.core-a.yaml").is_file()
