"""The buckets that pods mount, checked against roles as the twin does (rule cloud.fuse-access)."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from infra.reading.load import STACKS, parse, read
from tests.contract.infra.broken_stacks import edited
from tests.contract.infra.cloud import Deployed
from tests.contract.recorder import Records
from tests.shipped_stacks import EXAMPLES
from twin.cluster.agent.launching.bucket_access import check_access
from twin.host.paths import TwinPaths
from twin.world.store import Record, Store

DRIVER = "gcsfuse.csi.storage.gke.io"
GRANT = "gcp:storage/bucketIAMMember:BucketIAMMember"


def pods(seen: Records) -> list[Any]:
    """Return namespace and specification of the pods of a stack's Deployments."""
    found = seen.all("kubernetes:apps/v1:Deployment")
    return [(each.inputs["metadata"], each.inputs["spec"]["template"]["spec"]) for each in found]


@pytest.mark.parametrize("stack", ["local", "staging", "prod", "personalized-images"])
def test_every_bucket_that_a_pod_mounts_may_be_listed_by_its_account(
    deployed: Deployed, stack: str, tmp_path: Path
) -> None:
    folder = EXAMPLES / stack
    platform = read(stack, folder if folder.exists() else STACKS)
    seen = deployed(platform)
    paths = TwinPaths(tmp_path)
    paths.create()
    store = Store(paths.cloud_db)
    for at, grant in enumerate(seen.all(GRANT)):
        record = Record(GRANT, str(at), "", "", "urn", "ready", True, grant.inputs, {}, 0.0)
        store.add(record, [])
    mounted = 0
    for metadata, spec in pods(seen):
        pod = {"metadata": metadata, "spec": spec}
        for volume in spec.get("volumes", []):
            if volume.get("csi", {}).get("driver") == DRIVER:
                bucket = volume["csi"]["volumeAttributes"]["bucketName"]
                check_access(paths, platform.project, pod, bucket)
                mounted += 1
    assert mounted


def test_a_bucket_of_the_platform_that_a_path_names_has_one_grant_to_the_gate(
    deployed: Deployed,
) -> None:
    at = ["models", "llama-3.1-8b", "weights"]
    own = "acme-local-models-us-central1"
    seen = deployed(
        parse(json.dumps(edited("local", [{"at": at, "value": f"gs://{own}/llama-3.1-8b"}])))
    )
    gate = [each for each in seen.all(GRANT) if each.inputs["member"].endswith("/weights-gate")]
    assert Counter(each.inputs["bucket"] for each in gate) == {own: 1}
