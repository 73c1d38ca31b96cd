"""The reasons for checkov's findings: their form, and which findings they are about."""

import re

from policies.benchmark.findings import (
    LOCK,
    Explained,
    Finding,
    check_titles,
    explained,
    idle,
    unexplained,
    version,
)

CPU = Explained("CKV_K8S_11", "limits", ("Deployment.serving.*",), "because")


def test_each_reason_is_of_a_check_with_a_title_and_is_about_objects():
    reasons = explained()
    assert {each.check for each in reasons} == {*check_titles()}
    assert [each.check for each in reasons if not re.fullmatch(r"CKV2?_K8S_\d+", each.check)] == []
    assert [each.check for each in reasons if len(each.reason) < 20 or not each.objects] == []
    named = [(each.check, pattern) for each in reasons for pattern in each.objects]
    assert len(named) == len({*named})
    assert [pattern for _, pattern in named if pattern.count(".") < 2] == []


def test_the_lock_has_the_version_of_the_reasons():
    assert f"checkov=={version()} " in LOCK.read_text()


def test_a_finding_of_another_check_or_object_has_no_reason():
    explained_one = Finding("CKV_K8S_11", "Deployment.serving.chat")
    others = [
        Finding("CKV_K8S_8", "Deployment.serving.chat"),
        Finding("CKV_K8S_11", "Job.serving.a"),
    ]
    assert unexplained([explained_one, *others], [CPU]) == sorted(others)


def test_a_pattern_without_a_finding_is_idle():
    both = Explained("CKV_K8S_11", "limits", ("Deployment.serving.*", "Job.*.*"), "because")
    assert idle([Finding("CKV_K8S_11", "Deployment.serving.chat")], [both]) == [
        Finding("CKV_K8S_11", "Job.*.*")
    ]
