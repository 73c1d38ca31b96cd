"""Which pods a change restarts."""

import pytest

from scripts.verdicts.changes import changes
from scripts.verdicts.moves import moves
from scripts.verdicts.rules import readable, sources, worlds
from scripts.verdicts.runs import Run
from tests.unit.verdicts.record import recorded
from tests.unit.verdicts.steps import replacement, step

CLUSTER = "acme-local-us-central1"
CLUSTER_TYPE = "gcp:container/cluster:Cluster"
NODE_POOL = "gcp:container/nodePool:NodePool"


def moved(run):
    before, after = (worlds(sources(readable(side))) for side in (run.before, run.after))
    found = moves(changes(run.steps), before, after, run.before)
    return {move.workload.rpartition("/")[2]: move for move in found}


def altered(run, kind, alter):
    """Return a run in which the one resource of a type is not the same, but has these steps."""
    [state] = [each for each in run.before if each["type"] == kind]
    others = [each for each in unaltered(run) if each["urn"] != state["urn"]]
    return Run(run.before, (*others, *alter(state)))


def unaltered(run):
    """Return what stays the same in a run, and its cluster as if it did."""
    kept = [step for step in run.steps if step["op"] == "same"]
    [cluster] = [step for step in run.steps if step["urn"].split("::")[2].endswith(CLUSTER_TYPE)]
    return [*kept, {"op": "same", "urn": cluster["urn"], "newState": cluster["oldState"]}]


def steps_of(state, made):
    return [{**each, "urn": state["urn"], "oldState": state} for each in made]


def test_pods_move_by_workload_as_many_as_the_autoscaler_may_have():
    found = moved(recorded())
    tpu = found["llama-3-1-8b-tpu"]
    assert (tpu.cluster, tpu.minimum, tpu.maximum) == (CLUSTER, 1, 4)
    assert tpu.why == "the pod template changes"
    assert tpu.pods == "1 to 4"
    assert found["llama-3-1-8b-gpu"].pods == "0 to 4"


def test_pods_on_nodes_that_are_made_anew_move_though_they_do_not_change():
    found = moved(recorded())
    assert found["llama-3-1-8b-picker"].why == "node pool system is re-created"
    assert found["acme-local-gateway-body-router"].pods == "2"


def test_a_new_model_moves_nothing():
    assert not [name for name in moved(recorded()) if name.startswith("gemma")]


def test_pods_that_choose_a_compute_class_do_not_run_on_the_system_pool():
    run = recorded()
    [pool] = [each for each in run.before if each["type"] == NODE_POOL]
    gone = altered(run, NODE_POOL, lambda s: steps_of(s, [step("delete", NODE_POOL, "x")]))
    assert pool["inputs"]["name"] == "system"
    assert set(moved(gone)) == {
        "acme-local-gateway-body-router", "acme-local-gateway-catalogue", "llama-3-1-8b-picker",
        "weights-gate",
    }  # fmt: skip


def test_everything_moves_with_a_cluster():
    kind = CLUSTER_TYPE

    def replaced(state):
        made = replacement(kind, "x", state["inputs"], state["inputs"], "network")
        return steps_of(state, [{**each, "newState": state} for each in made])

    found = moved(altered(recorded(), kind, replaced))
    assert {"llama-3-1-8b-tpu", "llama-3-1-8b-gpu", "llama-3-1-8b-picker"} <= set(found)
    assert {move.why for move in found.values()} == {f"cluster {CLUSTER} is replaced"}


@pytest.mark.parametrize("moves_back", [True, False])
def test_another_ladder_moves_pods_only_where_the_class_moves_them_back(moves_back):
    run = recorded()
    kind = "kubernetes:cloud.google.com/v1:ComputeClass"
    state = next(each for each in run.before if each["type"] == kind)
    name = state["inputs"]["metadata"]["name"]
    spec = {
        **state["inputs"]["spec"],
        "activeMigration": {"optimizeRulePriority": moves_back},
    }
    new = {**state, "inputs": {**state["inputs"], "spec": spec}}
    same = [step for step in unaltered(run) if step["urn"] != state["urn"]]
    update = {"op": "update", "urn": state["urn"], "oldState": state, "newState": new}
    found = moved(Run(run.before, (*same, update)))
    tier = name.removeprefix("interactive-")
    assert set(found) == ({f"llama-3-1-8b-{tier}"} if moves_back else set())
