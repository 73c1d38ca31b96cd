"""Property paths and quantities."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twin.providers.kubernetes.manifests import fields, quantities

STEPS = st.lists(
    st.one_of(
        st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1).filter(
            lambda text: text != "*"
        ),
        st.integers(0, 99),
    ),
    min_size=1,
    max_size=5,
).filter(lambda steps: isinstance(steps[0], str))


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("spec.replicas", ("spec", "replicas")),
        ("spec.containers[0].image", ("spec", "containers", 0, "image")),
        ("spec.containers[*].image", ("spec", "containers", "*", "image")),
        ('metadata.annotations["a.b/c"]', ("metadata", "annotations", "a.b/c")),
        ('data["say \\"hi\\""]', ("data", 'say "hi"')),
    ],
)
def test_a_path_is_read_as_the_engine_writes_it(text, steps):
    assert fields.parse(text) == steps


@given(STEPS)
def test_a_path_that_was_written_reads_back_the_same(steps):
    assert fields.parse(fields.render(tuple(steps))) == tuple(steps)


def test_text_that_is_no_path_is_refused():
    with pytest.raises(ValueError, match="not a property path"):
        fields.parse("spec.containers[")


def test_what_lies_nowhere_is_missing_and_null_is_a_value():
    assert fields.get({"a": None}, ("a",)) is None
    assert fields.get({"a": [1]}, ("a", 1)) is fields.MISSING
    assert fields.get({"a": 1}, ("a", "b")) is fields.MISSING


@pytest.mark.parametrize(
    ("left", "right"), [("0.5", "500m"), ("1024Mi", "1Gi"), ("1000m", "1"), (2, "2"), ("1e3", "1k")]
)
def test_quantities_that_mean_the_same_are_the_same(left, right):
    assert quantities.same(left, right)


@pytest.mark.parametrize(
    ("left", "right"), [("1G", "1Gi"), ("red", "blue"), ("1", "2"), (True, "1")]
)
def test_values_that_mean_something_else_differ(left, right):
    assert not quantities.same(left, right)
