import runpy
from pathlib import Path

import pulumi
import yaml

FOLDER = Path(__file__).parents[3] / "docs" / "examples" / "import-components"


def test_a_program_outside_the_repository_serves_a_model_behind_a_gateway(recorder):
    config = {"gke-inference:project": "acme", "gke-inference:projectNumber": "314159265358"}
    pulumi.runtime.set_all_config(config)

    def program():
        runpy.run_path(str(FOLDER / "__main__.py"))

    recorder.run(program)
    counts = recorder.counts()
    assert counts["Cluster"] == 1
    assert counts["Bucket"] == 1
    assert counts["ComputeClass"] == 2  # the component and the object in the cluster
    assert counts["ModelServer"] == counts["InferenceGateway"] == 1
    deployments = {
        seen.inputs["metadata"]["name"]: seen.inputs["spec"]["template"]["spec"]
        for seen in recorder.registrations
        if seen.type == "kubernetes:apps/v1:Deployment"
    }
    assert "--max-num-batched-tokens=4096" in deployments["chat-gpu"]["containers"][0]["args"]
    assert recorder.one("gcp:storage/bucket:Bucket").inputs["name"] == "acme-weights"
    class_object = recorder.one("kubernetes:cloud.google.com/v1:ComputeClass")
    assert "cluster" in class_object.provider


def test_the_example_is_a_project_of_its_own():
    project = yaml.load((FOLDER / "Pulumi.yaml").read_text(), yaml.CSafeLoader)
    assert project["runtime"]["name"] == "python"
    *_, members = (FOLDER / "requirements.txt").read_text().splitlines()
    assert (
        (FOLDER / members / "pyproject.toml")
        .read_text()
        .startswith('[project]\nname = "gke-inference-components"\n')
    )
