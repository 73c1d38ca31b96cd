"""Secure boot: what stacks register is what one page says, to which the others refer."""

import re
from typing import Any

import pytest

from infra.reading.load import STACKS
from tests.contract.infra.cloud import Deployed
from tests.contract.infra.registered import registered
from twin.host.paths import REPOSITORY
from twin.wire.property_values import get_path

CLUSTER = "gcp:container/cluster:Cluster"
POOL = "gcp:container/nodePool:NodePool"
SECURE = "shieldedInstanceConfig.enableSecureBoot"
NODES = {
    CLUSTER: (
        f"nodeConfig.{SECURE}",
        f"clusterAutoscaling.autoProvisioningDefaults.{SECURE}",
    ),
    POOL: (f"nodeConfig.{SECURE}",),
}
PAGE, LINK = "node-settings.md", "node-settings.md#secure-boot"
OWN_WORDS = ("cis-gke-benchmark.md", "policies.md", "traps.md", PAGE)
"""Pages that quote a benchmark, a policy or a dated note, and the page itself."""


@pytest.mark.parametrize("name", ["local", "prod"])
def test_all_nodes_of_a_standard_cluster_have_secure_boot(name: str, deployed: Deployed) -> None:
    found: dict[str, Any] = {}
    for seen in registered(STACKS / f"Pulumi.{name}.yaml", deployed):
        if not seen.inputs.get("enableAutopilot"):
            for path in NODES.get(seen.type, ()):
                found[f"{seen.name}.{path}"] = get_path(seen.inputs, path)
    assert len(found) >= 3
    assert set(found.values()) == {True}
    text = " ".join((REPOSITORY / "docs" / PAGE).read_text().split())
    assert "## Secure boot All nodes of a Standard cluster have secure boot" in text


def test_other_pages_refer_to_the_page_about_secure_boot() -> None:
    pages = {each.name: each.read_text() for each in (REPOSITORY / "docs").glob("*.md")}
    copies = [
        f"{name}: {part.strip()[:100]}"
        for name in sorted(pages.keys() - set(OWN_WORDS))
        for part in re.split(r"\n\n|\n[-|] ", pages[name])
        if "secure boot" in part.lower() and LINK not in part
    ]
    assert copies == []
