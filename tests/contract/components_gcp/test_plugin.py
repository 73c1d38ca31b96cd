import inspect
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, get_args, is_typeddict

import grpc
import pulumi
import pytest
import yaml
from pulumi.provider.experimental.component import ComponentProvider
from pulumi.runtime.proto import provider_pb2 as untyped_provider_pb2
from pulumi.runtime.proto import provider_pb2_grpc

import gke_inference
from gke_inference import Exposure, RegionRanges, RungArgs
from gke_inference.catalogue import accelerators
from gke_inference.plugin import COMPONENTS, NAME, VERSION
from gke_inference.settings import Settings, Word

ROOT = Path(__file__).parents[3]
provider_pb2: Any = untyped_provider_pb2  # generated code without types
GOLDEN = ROOT / "tests" / "golden" / "schema.json"
UPDATE = "UPDATE_GOLDEN=1 .venv/bin/pytest tests/contract/components_gcp/test_plugin.py"


@pytest.fixture(scope="module")
def plugin():
    return ComponentProvider(list(COMPONENTS), NAME, None, VERSION)


def clean(value: Any) -> Any:
    """Return a schema with docstrings dedented, as Python 3.13 does and earlier ones do not."""
    if isinstance(value, dict):
        return {
            key: inspect.cleandoc(item)
            if key == "description" and isinstance(item, str)
            else clean(item)
            for key, item in value.items()
        }
    return [clean(item) for item in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def schema(plugin):
    return clean(json.loads(plugin.schema))


def test_the_schema_is_the_one_that_was_reviewed(schema):
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(json.dumps(schema, indent=1, sort_keys=True) + "\n")
    assert json.loads(GOLDEN.read_text()) == schema, f"the schema changed; if meant, run: {UPDATE}"


def test_every_component_has_inputs_and_outputs_with_a_description(schema):
    assert len(schema["resources"]) == len(COMPONENTS)
    for token, resource in schema["resources"].items():
        assert token.startswith("gke-inference:index:")
        assert resource["description"], token
        assert resource["inputProperties"], token
        for name, body in (resource["inputProperties"] | resource["properties"]).items():
            assert body.get("description"), f"{token} {name}"


def test_every_type_has_a_description_on_every_key(schema):
    for token, entry in schema["types"].items():
        for name, body in entry.get("properties", {}).items():
            assert body.get("description"), f"{token} {name}"


def test_outputs_are_scalars_lists_of_scalars_or_string_maps(schema):
    for token, resource in schema["resources"].items():
        for name, body in resource["properties"].items():
            inner = body.get("items") or body.get("additionalProperties") or body
            assert "$ref" not in inner, f"{token} {name}"


WIRE = {
    "AcceleratorPool": (
        {
            "cluster": "prod",
            "location": "us-east5",
            "maxNodes": 4.0,
            "nodeServiceAccount": "nodes@acme.iam.gserviceaccount.com",
            "poolName": "v6e",
            "project": "acme",
            "bootDiskGib": 200.0,
            "rung": {
                "accelerator": "tpu-v6e",
                "provisioning": "flex-start",
                "topology": "2x2",
                "maxRunHours": 24.0,
            },
        },
        {
            "cluster": "prod",
            "location": "us-east5",
            "max_nodes": 4,
            "node_service_account": "nodes@acme.iam.gserviceaccount.com",
            "pool_name": "v6e",
            "project": "acme",
            "boot_disk_gib": 200,
            "rung": {
                "accelerator": "tpu-v6e",
                "provisioning": "flex-start",
                "topology": "2x2",
                "max_run_hours": 24,
            },
        },
    ),
    "InferenceCluster": (
        {
            "clusterName": "prod",
            "location": "us-east5",
            "mode": "standard",
            "network": "n",
            "podsRange": "pods",
            "project": "acme",
            "servicesRange": "services",
            "subnetwork": "s",
            "autoProvisioningLimits": {"cpu": 64.0},
            "maintenance": {"days": ["SA", "SU"], "hours": 8.0, "startHour": 3.0},
            "systemPool": {"minNodes": 2.0, "maxNodes": 5.0},
        },
        {
            "cluster_name": "prod",
            "location": "us-east5",
            "mode": "standard",
            "network": "n",
            "pods_range": "pods",
            "project": "acme",
            "services_range": "services",
            "subnetwork": "s",
            "auto_provisioning_limits": {"cpu": 64},
            "maintenance": {"days": ["SA", "SU"], "hours": 8, "start_hour": 3},
            "system_pool": {"min_nodes": 2, "max_nodes": 5},
        },
    ),
    "ModelBucket": (
        {
            "bucketName": "acme-weights",
            "location": "us-east5",
            "project": "acme",
            "softDeleteDays": 30.0,
            "cacheDays": 2.0,
            "cacheZones": ["us-east5-a"],
        },
        {
            "bucket_name": "acme-weights",
            "location": "us-east5",
            "project": "acme",
            "soft_delete_days": 30,
            "cache_days": 2,
            "cache_zones": ["us-east5-a"],
        },
    ),
    "ModelDisk": (
        {
            "claimName": "c",
            "diskName": "d",
            "namespace": "n",
            "project": "acme",
            "sizeGib": 100.0,
            "throughputMibPerS": 500.0,
            "zones": ["us-east5-a"],
            "filled": True,
        },
        {
            "claim_name": "c",
            "disk_name": "d",
            "namespace": "n",
            "project": "acme",
            "size_gib": 100,
            "throughput_mib_per_s": 500,
            "zones": ["us-east5-a"],
            "filled": True,
        },
    ),
    "Network": (
        {
            "networkName": "acme",
            "mtu": 8896.0,
            "regions": {
                "us-east5": {
                    "nodes": "10.0.0.0/20",
                    "pods": "10.64.0.0/14",
                    "proxies": "10.9.0.0/23",
                    "services": "10.8.0.0/20",
                }
            },
        },
        {
            "network_name": "acme",
            "mtu": 8896,
            "regions": {
                "us-east5": {
                    "nodes": "10.0.0.0/20",
                    "pods": "10.64.0.0/14",
                    "proxies": "10.9.0.0/23",
                    "services": "10.8.0.0/20",
                }
            },
        },
    ),
    "WorkloadIdentity": (
        {
            "namespace": "serving",
            "project": "acme",
            "projectNumber": "123",
            "serviceAccountName": "llama",
            "bucketRoles": {"weights": {"bucket": "b", "access": "read"}},
        },
        {
            "namespace": "serving",
            "project": "acme",
            "project_number": "123",
            "service_account_name": "llama",
            "bucket_roles": {"weights": {"bucket": "b", "access": "read"}},
        },
    ),
}


@pytest.mark.parametrize("name", WIRE)
def test_what_other_languages_send_builds_what_python_builds(engine, plugin, name):
    wire, python = WIRE[name]
    token = f"gke-inference:index:{name}"

    def through_the_wire():
        return plugin.construct("it", token, wire).urn

    component = getattr(gke_inference, name)
    theirs = children(engine(), through_the_wire)
    ours = children(engine(), lambda: component("it", python).urn)
    assert theirs == ours
    assert theirs


def children(recorder, program):
    recorder.run(program)
    return {
        (seen.type, seen.name): seen.inputs
        for seen in recorder.registrations
        if not seen.type.startswith("gke-inference:")
    }


def test_a_broken_rule_crosses_the_wire_with_its_path(recorder, plugin):
    wire = {**WIRE["ModelBucket"][0], "softDeleteDays": 3.0}
    with pytest.raises(Exception, match=r"0 or 7 to 90") as refused:
        recorder.run(lambda: plugin.construct("it", "gke-inference:index:ModelBucket", wire).urn)
    assert "softDeleteDays" in str(refused.value.args) or "softDeleteDays" in str(refused.value)


def test_the_public_names_are_sorted_and_all_there():
    names = gke_inference.__all__
    assert len(set(names)) == len(names)
    kinds = [[n for n in names if n[0].isupper()], [n for n in names if n[0].islower()]]
    assert names == sorted(kinds[0]) + sorted(kinds[1])
    for name in names:
        assert getattr(gke_inference, name).__name__ == name
    assert set(names) <= set(dir(gke_inference))


def test_every_component_is_public_with_its_args():
    public = set(gke_inference.__all__)
    for component in COMPONENTS:
        assert issubclass(component, pulumi.ComponentResource)
        assert {component.__name__, f"{component.__name__}Args"} <= public


def test_every_type_of_an_input_is_public():
    found: set[type] = set()
    for component in COMPONENTS:
        collect(inspect.get_annotations(component.__init__)["args"], found)
    assert {Exposure, RegionRanges, RungArgs} <= found
    assert {each.__name__ for each in found} <= set(gke_inference.__all__)


def collect(annotation: Any, found: set[type]) -> None:
    """Adds the package's own types inside an annotation."""
    for part in get_args(annotation):
        collect(part, found)
    if not isinstance(annotation, type) or annotation in found:
        return
    if is_typeddict(annotation):
        found.add(annotation)
        for inner in annotation.__annotations__.values():
            collect(inner, found)
    elif issubclass(annotation, Settings):
        found.add(annotation)
        for field in annotation.model_fields.values():
            collect(field.annotation, found)
    elif issubclass(annotation, Word):
        found.add(annotation)


def test_a_name_that_does_not_exist_is_an_attribute_error():
    name = "Nonesuch"
    with pytest.raises(AttributeError, match=f"attribute {name}"):
        getattr(gke_inference, name)


def test_facts_and_rules_are_read_without_the_cloud_sdks():
    code = (
        "import importlib, pkgutil, sys\n"
        "for folder in ('catalogue', 'sizing', 'intent'):\n"
        "    package = importlib.import_module(f'gke_inference.{folder}')\n"
        "    for module in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "        importlib.import_module(module.name)\n"
        "print(sorted(m for m in sys.modules if m.split('.')[0] in ('pulumi', 'grpc')))"
    )
    assert outside(ROOT / "components", code) == "[]"


@pytest.mark.needs_tools  # a process that imports the SDKs
def test_the_package_works_from_outside_the_repository(tmp_path):
    site = tmp_path / "site"
    package = packed_folder()
    shutil.copytree(package, site / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    assert (site / "gke_inference" / "py.typed").exists()
    code = (
        "import gke_inference, gke_inference.catalogue.accelerators as a;"
        "from gke_inference.catalogue.prices import price;"
        "from gke_inference.catalogue.versions import api;"
        "print(gke_inference.__file__, a.accelerator('tpu-v6e').memory_gib,"
        " price('tpu-v6e', 'us-east5', 'on-demand', machine_type='ct6e-standard-1t').usd_per_hour,"
        " api('compute_class').kind, gke_inference.Network.__name__)"
    )
    init = site / "gke_inference" / "__init__.py"
    assert outside(site, code) == f"{init} 32 2.7 ComputeClass Network"


def packed_folder():
    """Returns the one folder the wheel is made of; its data files go with it."""
    project = tomllib.loads((ROOT / "components" / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel == {"packages": ["gke_inference"]}
    return ROOT / "components" / "gke_inference"


def outside(site, code):
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(site), "PYTHONWARNINGS": "ignore"}
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=site.parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


@pytest.mark.needs_tools  # a process that imports the SDKs
def test_the_plugin_runs_as_a_process_and_serves_its_schema():
    command = [sys.executable, "-W", "ignore", str(ROOT / "components"), "127.0.0.1:1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as plugin_process:
        try:
            assert plugin_process.stdout is not None
            port = int(plugin_process.stdout.readline())
            with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
                stub: Any = provider_pb2_grpc.ResourceProviderStub(channel)
                served = stub.GetSchema(provider_pb2.GetSchemaRequest(), timeout=20)
            assert clean(json.loads(served.schema)) == json.loads(GOLDEN.read_text())
        finally:
            plugin_process.terminate()


def test_the_plugin_file_names_the_runtime():
    plugin_file = yaml.load(
        (ROOT / "components" / "PulumiPlugin.yaml").read_text(), yaml.CSafeLoader
    )
    assert plugin_file["runtime"]["name"] == "python"


def test_the_version_is_the_same_everywhere():
    project = tomllib.loads((ROOT / "components" / "pyproject.toml").read_text())["project"]
    assert project["version"] == VERSION
    assert accelerators.catalogue_date().startswith("20")


def test_git_ignores_what_the_official_host_makes_beside_the_plugin():
    made = ["components/venv/pyvenv.cfg", "components/venv/bin/python"]
    ignored = subprocess.run(
        ["git", "check-ignore", *made],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ignored.stdout.split() == made
