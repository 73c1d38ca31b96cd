"""YAML of users that no reader could walk through is refused where it is read."""

from typing import Any

import pytest
import yaml

from gke_inference.catalogue.input_error import yaml_problem
from gke_inference.catalogue.user_yaml import UserLoader, user_yaml


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: &one\n- *one\n", "anchor 'one' contains itself at line 2, column 3"),
        ("a: &one {b: &two {c: *one}}", "anchor 'one' contains itself"),
        ("[" * 1000, "nested more than 100 levels"),
    ],
)
def test_loops_and_endless_nesting_are_refused(text: str, problem: str) -> None:
    with pytest.raises(yaml.YAMLError) as caught:
        user_yaml(text)
    assert problem in yaml_problem(caught.value)


def bomb(lines: int) -> str:
    """Return YAML in which each line repeats the one before nine times."""
    rows = (f"- &a{at} [{', '.join([f'*a{at - 1}'] * 9)}]" for at in range(1, lines))
    return "\n".join(["- &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]", *rows, ""])


def test_aliases_that_multiply_are_refused_before_anything_copies_them() -> None:
    assert len(user_yaml(bomb(4))) == 4
    with pytest.raises(yaml.YAMLError) as caught:
        user_yaml(bomb(9))
    problem = "aliases repeat more than 100,000 values at line 6, column"
    assert problem in yaml_problem(caught.value)


def test_an_anchor_beside_itself_is_a_copy() -> None:
    assert user_yaml("a: &one [1]\nb: *one\nc: {<<: &two {d: 2}, e: *two}\n") == {
        "a": [1], "b": [1], "c": {"d": 2, "e": {"d": 2}},
    }  # fmt: skip


def test_json_that_escapes_a_character_beyond_16_bits_is_read() -> None:
    assert user_yaml('{"a": "\\ud83d\\ude00"}') == {"a": "\ud83d\ude00"}


def test_a_message_quotes_the_line() -> None:
    with pytest.raises(yaml.YAMLError) as caught:
        user_yaml("é: 1\nb: c: d\n")
    assert yaml_problem(caught.value) == (
        "mapping values are not allowed here at line 2, column 5: b: c: d ^"
    )


def test_positions_count_the_mark_at_the_beginning_of_a_file() -> None:
    text = "\ufeffa: 1\n"
    node: Any = yaml.compose(text, UserLoader)
    assert text[node.value[0][0].start_mark.index :] == "a: 1\n"
