"""`recover --on cloud` knows where Google shows each resource of the stacks and examples."""

import json
from pathlib import Path

import pytest

from infra.reading.load import STACKS, parse, platform_of
from scripts.backend.identifiers import CONNECTION, IDENTIFIERS
from tests.contract.infra.cloud import Deployed
from tests.shipped_stacks import EXAMPLES

OTHERWISE = {
    "gcp:billing/budget:Budget",
    "gcp:binaryauthorization/policy:Policy",
    "gcp:cloudbuild/trigger:Trigger",
    "gcp:compute/routerNat:RouterNat",
    "gcp:dataflow/flexTemplateJob:FlexTemplateJob",
    "gcp:gkehub/featureMembership:FeatureMembership",
    "gcp:monitoring/alertPolicy:AlertPolicy",
    "gcp:monitoring/dashboard:Dashboard",
    "gcp:monitoring/notificationChannel:NotificationChannel",
    "gcp:monitoring/uptimeCheckConfig:UptimeCheckConfig",
    "gcp:projects/service:Service",
    "gcp:projects/serviceIdentity:ServiceIdentity",
    "gcp:storage/anywhereCache:AnywhereCache",
    "gcp:storage/bucketObject:BucketObject",
    CONNECTION,
}
"""Types whose ID Google chooses, parts of other resources, what every project has, and
connections, which have a look-up of their own."""

FILES = [
    file
    for file in (*STACKS.glob("Pulumi.*.yaml"), *EXAMPLES.glob("*/Pulumi.*.yaml"))
    if platform_of(file).get("layer") != "serving"
]
"""Serving stacks have only objects of Kubernetes, grants and alerts."""


@pytest.mark.parametrize("file", sorted(FILES), ids=lambda file: file.stem.removeprefix("Pulumi."))
def test_every_type_of_a_stack_is_looked_up_or_known_not_to_be(
    deployed: Deployed, file: Path
) -> None:
    made = deployed(parse(json.dumps(platform_of(file)))).registrations
    kinds = {seen.type for seen in made if seen.type.startswith("gcp:")}
    grants = {kind for kind in kinds if kind.lower().endswith("iammember")}
    assert kinds - grants - set(IDENTIFIERS) <= OTHERWISE
    assert kinds
