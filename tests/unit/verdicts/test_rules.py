"""Results of policies and invariants for both sides."""

import pytest

from scripts.verdicts.rules import (
    Breach,
    broken_invariants,
    broken_policies,
    compared,
    opened,
    readable,
    sources,
)
from tests.unit.verdicts.record import recorded
from twin.wire.property_values import SECRET_SIGNATURE, SIGNATURE_KEY, UNKNOWN

A, B, C = (Breach("rule", name, "is wrong") for name in "abc")


def test_breaches_are_new_mended_or_standing():
    found = compared([A, B], [B, C])
    assert (found.new, found.fixed, found.standing) == ((C,), (A,), (B,))
    assert found.is_blocked


def test_advice_and_what_was_broken_before_block_nothing():
    advice = Breach("rule", "a", "could be better", is_blocking=False)
    assert not compared([B], [advice, B]).is_blocked


def test_a_model_more_breaks_no_rule_that_was_not_broken_before():
    run = recorded()
    sides = [list(run.before), run.after]
    policies = compared(*(broken_policies(readable(side)) for side in sides))
    found = compared(*(broken_invariants(sources(readable(side))) for side in sides))
    for each in (policies, found):
        assert {one.rule for one in each.new} <= {one.rule for one in each.standing}
        assert each.fixed == ()


def test_a_public_bucket_breaks_a_policy_and_is_named():
    states = [
        {
            "type": "gcp:storage/bucket:Bucket",
            "urn": "urn:pulumi:dev::gke-inference::gcp:storage/bucket:Bucket::b",
            "inputs": {"name": "weights", "publicAccessPrevention": "inherited"},
        }
    ]
    found = {each.rule: each for each in broken_policies(readable(states))}
    assert found["private-bucket"].where == "Bucket b"


def test_a_rule_that_needs_what_nobody_knows_is_quiet():
    states = [
        {
            "type": "gcp:storage/bucket:Bucket",
            "urn": "urn:pulumi:dev::gke-inference::gcp:storage/bucket:Bucket::b",
            "inputs": {"uniformBucketLevelAccess": True, "publicAccessPrevention": UNKNOWN},
        }
    ]
    assert "private-bucket" not in {each.rule for each in broken_policies(readable(states))}


def test_an_engine_that_has_fewer_chips_than_it_splits_over_breaks_an_invariant():
    run = recorded()
    after = run.after
    [served] = [s for s in after if s["urn"].endswith("Deployment::us-central1-llama-3-1-8b-gpu")]
    [engine] = [
        each
        for each in served["inputs"]["spec"]["template"]["spec"]["containers"]
        if "nvidia.com/gpu" in str(each.get("resources"))
    ]
    for group in engine["resources"].values():
        if "nvidia.com/gpu" in group:
            group["nvidia.com/gpu"] = "3"
    found = compared(
        broken_invariants(sources(readable(run.before))),
        broken_invariants(sources(readable(after))),
    )
    assert found.is_blocked
    assert "Deployment models/llama-3-1-8b-gpu in acme-local-us-central1" in {
        each.where for each in found.new
    }


def test_objects_are_told_apart_by_cluster_and_carry_their_urn():
    [source] = sources(readable(recorded().before))
    assert source.name == "acme-local-us-central1"
    assert all(each.file.startswith("urn:pulumi:local::") for each in source.documents)


@pytest.mark.parametrize("held", [{"ciphertext": "x"}, {"plaintext": '"x"'}])
def test_a_secret_is_hidden_wherever_it_stands(held):
    secret = {SIGNATURE_KEY: SECRET_SIGNATURE, **held}
    assert opened({"a": [secret]}) == {"a": ["[secret]"]}
