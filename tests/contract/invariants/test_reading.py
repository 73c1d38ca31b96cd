"""Reading of objects and command lines, and rejected input."""

import json

import pytest
import yaml

from policies.objects.command_line import command_line
from policies.objects.documents import UnreadableError, sources

MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


def test_lists_and_several_documents_of_a_file_are_objects(tmp_path):
    listed = {"apiVersion": "v1", "kind": "List", "items": [MAP, MAP]}
    (tmp_path / "a.yaml").write_text(yaml.safe_dump_all([MAP, listed, None, {"other": 1}]))
    (tmp_path / "b.json").write_text(json.dumps(MAP))
    (source,) = sources([tmp_path])
    assert len(source.documents) == 4
    assert source.resources is None


def test_a_render_is_read_cluster_by_cluster_with_its_resources(tmp_path):
    for cluster in ("east", "west"):
        folder = tmp_path / "manifests" / cluster / "models"
        folder.mkdir(parents=True)
        (folder / "a.yaml").write_text(yaml.safe_dump(MAP))
    (tmp_path / "resources.json").write_text('[{"type": "x"}]')
    for path in (tmp_path, tmp_path / "manifests"):
        found = sources([path])
        assert [source.name for source in found] == ["east", "west"]
        assert found[0].resources == ({"type": "x"},)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("templates/a.yaml", "kind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\n"),
        ("templates/a.yaml", "{{- if .Values.on }}\nkind: ConfigMap\n{{- end }}\n"),
        (
            "a.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: '{{ .Release.Name }}-a'\n",
        ),
        ("Chart.yaml", "name: chart\nversion: 1.0.0\n"),
    ],
)
def test_templates_of_helm_are_refused_with_the_command_that_renders_them(tmp_path, name, text):
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    with pytest.raises(UnreadableError, match="helm template"):
        sources([tmp_path])


def test_a_kustomization_is_refused_with_the_command_that_renders_it(tmp_path):
    (tmp_path / "kustomization.yaml").write_text("resources: [a.yaml]\n")
    with pytest.raises(UnreadableError, match="kubectl kustomize"):
        sources([tmp_path])


def test_a_file_that_is_no_text_is_refused_by_its_name(tmp_path):
    (tmp_path / "a.yaml").write_bytes(b"\xff\xfe\x00kind")
    with pytest.raises(UnreadableError, match="is not UTF-8 text"):
        sources([tmp_path])


def test_a_folder_without_objects_is_no_pass(tmp_path):
    (tmp_path / "a.yaml").write_text("just: values\n")
    with pytest.raises(UnreadableError, match="no Kubernetes object"):
        sources([tmp_path])
    with pytest.raises(UnreadableError, match="no such file"):
        sources([tmp_path / "missing"])


@pytest.mark.parametrize(
    "words",
    [
        ["vllm", "serve", "--tensor-parallel-size=8"],
        ["vllm", "serve", "--tensor-parallel-size", "8"],
        ["vllm", "serve", "--tensor_parallel_size=8"],
        ["vllm", "serve", "-tp", "8"],
        ["sh", "-c", "set -e; exec vllm serve x \\\n  --tensor-parallel-size 8 # all of them"],
        ["/bin/bash", "-ec", "vllm serve x -tp=8 && true"],
        ["vllm", "serve", "--tensor-parallel-size=$(TP)"],
        ["bash", "-c", "vllm serve x -tp ${TP}"],
        ["bash", "-c", "vllm serve x -tp ${OTHER:-8}"],
        ["vllm", "-tp", "4", "--tensor-parallel-size", "8"],
    ],
)
def test_a_flag_is_found_in_every_form(words):
    line = command_line(words, {"TP": "8"})
    assert line.flag("--tensor-parallel-size", "-tp") == "8"
    assert not line.unresolved


def test_a_variable_without_a_value_is_said_to_be_unresolved():
    line = command_line(["vllm", "-tp=$(TP)"], {"TP": None})
    assert line.unresolved == {"TP"}
    assert line.flag("-tp") == "$(TP)"


def test_a_flag_with_several_values_ends_at_the_next_flag():
    line = command_line(["--lora-modules", "a=/a", "b=/b", "--port=1"], {})
    assert line.values("--lora-modules") == ["a=/a", "b=/b"]
    assert command_line(["--lora-modules=a=/a"], {}).values("--lora-modules") == ["a=/a"]
