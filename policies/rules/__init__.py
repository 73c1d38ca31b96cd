"""Every rule of the pack, by subject; one rule a file."""

from policies.rule import Rule, StackRule
from policies.rules.capacity import bounded_pool, waiting_class
from policies.rules.data import plain_secrets, private_bucket
from policies.rules.identity import broad_roles, node_account, public_iam, workload_identity
from policies.rules.lifecycle import deletion_protection, release_channel, shielded_nodes
from policies.rules.network import control_plane, dataplane, private_nodes
from policies.rules.serving import (
    backend_health,
    compile_cache,
    disruption_budget,
    pinned_image,
    privileged,
    probes,
    whole_chips,
)

RULES: tuple[Rule, ...] = (
    bounded_pool.RULE,
    broad_roles.RULE,
    compile_cache.RULE,
    control_plane.RULE,
    dataplane.RULE,
    deletion_protection.RULE,
    node_account.RULE,
    pinned_image.RULE,
    plain_secrets.RULE,
    private_bucket.RULE,
    private_nodes.RULE,
    privileged.RULE,
    probes.RULE,
    public_iam.RULE,
    release_channel.RULE,
    shielded_nodes.RULE,
    waiting_class.RULE,
    whole_chips.RULE,
    workload_identity.RULE,
)
STACK_RULES: tuple[StackRule, ...] = (backend_health.STACK_RULE, disruption_budget.STACK_RULE)
