"""The policy pack: `pulumi preview --policy-pack policies`."""

import gc
import sys
from pathlib import Path

from pulumi_policy import EnforcementLevel, PolicyPack

# The engine runs this file with its own folder first on the path; the package lies beside it.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from policies.framework.resources import Properties
from policies.pack.analyzer import serve_by_type
from policies.pack.policies import all_policies

gc.disable()  # a short process that keeps what it is sent: collecting finds nothing
seen: dict[str, Properties] = {}
serve_by_type(seen)
PolicyPack(
    "gke-inference",
    policies=all_policies(seen),
    enforcement_level=EnforcementLevel.MANDATORY,
    description="What a platform for AI inference on GKE must not do.",
)
