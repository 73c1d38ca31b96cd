"""Samples of jobs, and what a model learns of them."""

import json
from types import SimpleNamespace

import pytest

from workloads.optimization.samples import IGNORED, SampleError, read_samples, tokens_of


class Letters:
    """A tokenizer with a token for each character."""

    eos_token_id = 1
    chat_template: str | None = "a template"

    def __call__(self, text, **_):
        return SimpleNamespace(input_ids=[ord(letter) for letter in text])

    def apply_chat_template(self, messages, tokenize=False, add_generation_prompt=False):
        text = "".join(f"{each['role'][0]}:{each['content']}." for each in messages)
        return f"{text}a:" if add_generation_prompt else text


def letters(ids):
    return "".join("_" if each == IGNORED else chr(each) for each in ids)


def test_a_model_learns_the_completion_and_its_end():
    found = tokens_of({"prompt": "ab", "completion": "cd"}, Letters(), 100)
    assert letters(found.ids) == "abcd\x01"
    assert letters(found.labels) == "__cd\x01"


def test_a_model_learns_the_last_answer_of_a_conversation():
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes"}]
    found = tokens_of({"messages": messages}, Letters(), 100)
    assert letters(found.labels) == "_______Yes."


def test_a_model_learns_all_of_a_text_up_to_its_limit():
    assert letters(tokens_of({"text": "abcdef"}, Letters(), 4).labels) == "abcd"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "must have at least one sample, got none"),
        (["[1]"], "line 1: must be an object with text; prompt and completion; or messages"),
        ([json.dumps({"prompt": "a"})], "line 1: must be an object with text; prompt and"),
        (["{"], "line 1: must be JSON"),
    ],
)
def test_a_line_that_is_no_sample_is_refused(lines, message):
    with pytest.raises(SampleError) as refused:
        list(read_samples(lines))
    assert str(refused.value).startswith(message)


def test_messages_need_a_chat_template():
    plain = Letters()
    plain.chat_template = None
    with pytest.raises(SampleError, match="must be of a model with a chat template"):
        tokens_of({"messages": [{"role": "user", "content": "Hi"}]}, plain, 10)


def test_only_as_many_samples_are_read_as_needed():
    lines = [json.dumps({"text": str(at)}) for at in range(5)]
    assert [each["text"] for each in read_samples(lines, 2)] == ["0", "1"]
