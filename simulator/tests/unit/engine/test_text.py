"""The stand-in tokenizer and the simulated text."""

from hypothesis import given
from hypothesis import strategies as st

from simulator.server.bodies.text import answer, pieces, tokenize, until_stop


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=200))
def test_pieces_put_together_are_the_text(text: str):
    assert "".join(pieces(text)) == text


def test_an_english_word_is_a_little_more_than_a_token():
    text = "The quick brown fox jumps over the lazy dog while everybody in the garden watches it"
    assert 1.0 < len(tokenize(text)) / len(text.split()) < 1.5


@given(st.lists(st.integers(0, 99), min_size=1, max_size=20), st.integers(1, 400))
def test_an_answer_comes_back_as_the_tokens_it_was_made_of(prompt: list[int], most: int):
    out = answer("llama", prompt, most)
    assert len(out) <= most
    assert pieces("".join(out)) == out


def test_an_answer_whose_end_is_ignored_is_as_long_as_allowed():
    assert len(answer("m", [1], 900, ignore_end=True)) == 900


def test_the_first_stop_string_counts():
    kept, stop = until_stop([" one", " two", " three"], ["ee", "wo"])
    assert ("".join(kept), stop) == (" one t", "wo")
    assert until_stop([" one"], ["x"]) == ([" one"], None)


def test_a_stop_string_may_span_tokens():
    kept, stop = until_stop([" one", " two", " three"], ["e two"])
    assert ("".join(kept), len(kept), stop) == (" on", 2, "e two")
