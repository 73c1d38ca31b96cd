"""The grammar of forms: the gateway's programs read the same cases."""

import json

import pytest

from twin.host.paths import REPOSITORY
from workloads.diffusion import forms

CASES = json.loads(
    (REPOSITORY / "workloads/gateway/internal/forms/testdata/cases.json").read_text()
)


def read(case):
    body = case["body"].encode("latin-1")
    return forms.read(body, forms.boundary_of(case["content_types"]))


@pytest.mark.parametrize("case", [pytest.param(each, id=each["name"]) for each in CASES])
def test_a_form_is_read_as_the_gateway_reads_it_or_refused(case):
    if case["parts"] is None:
        with pytest.raises(forms.FormError):
            read(case)
        return
    found = [
        {"name": part.name, "is_file": part.is_file, "content": part.content.decode("latin-1")}
        for part in read(case)
    ]
    assert found == case["parts"]


def test_a_text_has_at_most_128_kib():
    head = b'--B\r\nContent-Disposition: form-data; name="user"\r\n\r\n'
    for count, is_read in ((131_072, True), (131_073, False)):
        body = head + b"x" * count + b"\r\n--B--"
        if is_read:
            assert len(forms.read(body, "B")[0].content) == count
            continue
        with pytest.raises(forms.FormError, match="at most 131072 bytes"):
            forms.read(body, "B")
