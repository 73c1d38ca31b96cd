"""Product code says a thing once: a run of equal lines in two files has a reason."""

import pytest

from scripts.develop.copies import Copy, copies, product_code

COMPONENTS = "components/gke_inference/"
REASONS = {
    (
        COMPONENTS + "cluster/cluster.py",
        COMPONENTS + "cluster/existing_cluster.py",
    ): "Pulumi reads the outputs of a component from the annotations of its own class",
    (
        COMPONENTS + "operators/group_operator.py",
        COMPONENTS + "operators/job_sets/job_set_operator.py",
    ): "the body of a component is its call of `install`",
    (
        COMPONENTS + "operators/kinds_program.py",
        COMPONENTS + "serving/adapter_loader.py",
    ): "each program runs as the text of one file",
    (
        COMPONENTS + "operators/cluster_kinds.py",
        COMPONENTS + "serving/ray/scaler.py",
    ): "the last fields of two pods with least privilege",
    (
        COMPONENTS + "guardrails/armor_calls.py",
        "twin/cluster/gateway/envoy/messages.py",
    ): "the events of the API: the twin keeps its own, to refuse what a component gets wrong",
    (
        COMPONENTS + "base/manifests.py",
        COMPONENTS + "serving/offline/batch_metrics.py",
    ): "the call that makes a manifest",
    (
        "simulator/dialects/tgi_bodies.py",
        "simulator/dialects/triton.py",
    ): "two methods of one protocol that happen to be the same",
    (
        "twin/tools/fake-gcs-server/main.go",
        "twin/tools/pubsub/main.go",
    ): "the end of two `main` functions",
    (
        "workloads/diffusion/xla/unet.py",
        "workloads/diffusion/xla/video/attention.py",
    ): "the signature that diffusers requires of an attention processor",
    (
        "workloads/gateway/callout/main.go",
        "workloads/gateway/relay/main.go",
    ): "the start of two `main` functions",
    (
        "workloads/gateway/callout/internal/identity/issuerkeys.go",
        "workloads/gateway/internal/watch/watch.go",
    ): "Go's loop over a ticker",
    (
        "workloads/personal/erasure.py",
        "workloads/personal/front.py",
    ): "constructors with the same parameters",
}
"""Copies that stay, each with its reason."""


@pytest.fixture(scope="module")
def found() -> dict[tuple[str, str], Copy]:
    return {(each.first, each.second): each for each in copies(product_code())}


def test_two_files_of_product_code_share_no_run_of_lines_without_a_reason(found):
    assert [each for pair, each in found.items() if pair not in REASONS] == []


def test_a_reason_is_removed_with_its_copy(found):
    assert [pair for pair in REASONS if pair not in found] == []


def test_a_copy_is_six_equal_lines_that_are_no_imports_declarations_or_comments():
    body = "".join(f"    total += price_of(item, {number})\n" for number in range(6))
    one = f"import csv\n\n\ndef first(\n    item: str,\n):\n{body}"
    other = f"from a import (\n    b,\n)\n# why\n{body.replace('(item, 3)', '( item, 3)')}\n"
    gap = body.replace("    total += price_of(item, 3)\n", "\n    # a reason\n    total += 3\n")
    assert copies({"a": one, "b": other}) == []
    same = f"import json\n\ndef second():\n\n{body}"
    assert copies({"a": one, "b": same}) == [Copy("a", "b", (7, 5), 6)]
    assert copies({"a": one, "b": gap}) == []
