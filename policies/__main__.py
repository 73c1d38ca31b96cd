"""The policy pack: `pulumi preview --policy-pack policies`."""

import gc
import sys
from pathlib import Path

from pulumi_policy import EnforcementLevel, PolicyPack

# The engine puts this file's folder first on the path; the package is next to it.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from policies.framework.resources import Properties
from policies.pack.analyzer import serve_by_type
from policies.pack.policies import all_policies

gc.disable()  # a short-lived process that keeps its data: garbage collection finds nothing
seen: dict[str, Properties] = {}
serve_by_type(seen)
PolicyPack(
    "gke-inference",
    policies=all_policies(seen),
    enforcement_level=EnforcementLevel.MANDATORY,
    description="Policies for AI inference platforms on GKE.",
)
