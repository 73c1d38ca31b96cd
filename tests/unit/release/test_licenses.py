"""Licenses of what images contain: each is recorded, and allowed or exempt with a reason."""

import pytest

from scripts.release.contents.images import contents, locked_packages
from scripts.release.contents.policy import (
    Exemption,
    Policy,
    idle_exemptions,
    is_allowed,
    policy,
    refusals,
    unknown_licenses,
)
from scripts.release.contents.read import declared
from scripts.release.contents.record import Package, Registry, read_record, unrecorded
from twin.host.paths import REPOSITORY

MINE = Package(Registry.PYPI, "mine", "1.0")
MIT = Policy(frozenset({"MIT"}), (), {})


def locked():
    """Return the Python packages of all images; Go lists those of its programs in the soak run."""
    images = contents(REPOSITORY).values()
    return {each for one in images if one.lock for each in locked_packages(REPOSITORY / one.lock)}


def test_each_package_of_an_image_has_a_recorded_license_and_no_other_package_has():
    python = {each: name for each, name in read_record().items() if each.registry is Registry.PYPI}
    assert unrecorded(locked(), python) == []


def test_every_recorded_license_is_allowed_or_exempt():
    assert refusals(read_record(), policy()) == []


def test_every_exemption_and_every_license_read_by_hand_is_of_a_package():
    rules, record = policy(), read_record()
    assert idle_exemptions(record, rules) == []
    assert {each.name for each in record} >= {*rules.by_hand}
    assert {each: record[each] for each in record if each.name in rules.by_hand} == {
        each: rules.by_hand[each.name] for each in record if each.name in rules.by_hand
    }


def test_recorded_and_allowed_licenses_are_spdx_expressions():
    known = {*read_record().values(), *policy().allowed}
    assert [each for each in sorted(known) if unknown_licenses(each)] == []


def test_a_new_package_under_the_gpl_is_refused_in_one_line():
    assert refusals({MINE: "GPL-3.0-or-later"}, policy()) == [
        "pkg:pypi/mine@1.0: the license must be allowed in licenses.yaml, or an exemption with a "
        "reason, got GPL-3.0-or-later"
    ]


def test_a_new_version_has_no_license_until_it_is_read():
    assert unrecorded([MINE._replace(version="1.1")], {MINE: "MIT"}) == [
        "pkg:pypi/mine@1.0: is recorded, and in nothing that is shipped",
        "pkg:pypi/mine@1.1: has no recorded license",
    ]


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("MIT OR GPL-2.0-only", True),
        ("MIT AND GPL-2.0-only", False),
        ("MIT AND (GPL-2.0-only OR MIT)", True),
        ("MIT WITH Classpath-exception-2.0", False),
        ("MIT AND (", False),
        ("", False),
    ],
)
def test_of_alternatives_one_must_be_allowed_and_of_parts_all(expression, allowed):
    assert is_allowed(expression, MIT.allowed) is allowed


def test_an_exemption_does_not_hold_for_another_license_or_package():
    exempt = Policy(frozenset(), (Exemption("mine*", "LGPL-2.1-only", "because"),), {})
    assert refusals({MINE: "LGPL-2.1-only"}, exempt) == []
    assert refusals({MINE._replace(name="mine-extra"): "LGPL-2.1-only"}, exempt) == []
    assert len(refusals({MINE: "GPL-2.0-only"}, exempt)) == 1
    assert len(refusals({MINE._replace(name="min"): "LGPL-2.1-only"}, exempt)) == 1
    assert idle_exemptions({MINE: "GPL-2.0-only"}, exempt) == ["mine*"]


@pytest.mark.parametrize(
    ("metadata", "expression"),
    [
        ({"license_expression": "MIT AND Zlib", "license": "other"}, "MIT AND Zlib"),
        ({"license": "Apache 2.0"}, "Apache-2.0"),
        ({"license": "MIT License\n\nCopyright (c) 2024 A Person\n\nPermission is"}, "MIT"),
        ({"classifier": ["License :: OSI Approved :: MIT License"]}, "MIT"),
        (
            {
                "license": "Dual License",
                "classifier": [
                    "License :: OSI Approved :: BSD License",
                    "License :: OSI Approved :: Apache Software License",
                ],
            },
            "Apache-2.0 OR LicenseRef-BSD",
        ),
        ({"license": "Terms of a Service", "classifier": ["Topic :: Software"]}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_a_wheel_declares_an_expression_a_word_or_a_classifier(metadata, expression):
    assert declared(metadata) == expression
