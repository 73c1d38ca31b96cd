"""An input error as a value: what it says, and that equal errors are equal."""

import pytest

from gke_inference.catalogue.input_error import Bare, InputError, shown


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "none"),
        (True, "true"),
        (False, "false"),
        (5, "5"),
        (1.5, "1.5"),
        ("vllm", "'vllm'"),
        (Bare("nvidia-l4 x1 spot"), "nvidia-l4 x1 spot"),
        (["a", 1], "['a', 1]"),
    ],
)
def test_a_value_is_shown_in_the_words_of_a_stack_file(value: object, said: str) -> None:
    assert shown(value) == said


def test_the_message_is_the_rule_the_value_and_what_follows_it() -> None:
    error = InputError("models.chat.engine", "must be one of vllm", "vlm", "; did you mean 'vllm'?")
    assert error.message == "must be one of vllm, got 'vlm'; did you mean 'vllm'?"
    assert error.sentence() == f"models.chat.engine {error.message}"
    assert str(error) == f"models.chat.engine: {error.message}"


def test_an_error_may_show_no_value_and_have_no_path() -> None:
    assert InputError("a.b", "is required").message == "is required"
    assert InputError("a.b", "is required", None).message == "is required, got none"
    assert str(InputError("", "must be JSON")) == "must be JSON"


def test_errors_that_say_the_same_are_equal_and_have_one_hash() -> None:
    first, second = (InputError("a", "must be at most 4", 5) for _ in range(2))
    assert first == second
    assert len({first, second}) == 1
    assert first != InputError("a", "must be at most 4", 6)
    assert first != ValueError("a: must be at most 4, got 5")


def test_an_error_can_be_said_of_an_option() -> None:
    error = InputError("mean_share", "must be above 0 and at most 1", 2)
    assert str(error.at("--mean-share")) == "--mean-share: must be above 0 and at most 1, got 2"
    assert (error.path, error.rule, error.value) == (
        "mean_share",
        "must be above 0 and at most 1",
        2,
    )


def test_it_can_be_raised_and_caught_like_any_wrong_value() -> None:
    with pytest.raises(ValueError, match=r"^a: must be at most 4, got 5$"):
        raise InputError("a", "must be at most 4", 5)
