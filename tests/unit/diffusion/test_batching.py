from typing import Any

import pytest

from workloads.diffusion.batching import Picture, Queue, batch_of


def picture(prompt="x", **changed):
    given: dict[str, Any] = {
        "adapters": (),
        "arrived": 0.0,
        "format": "png",
        "guidance": 3.5,
        "height": 64,
        "model": "flux",
        "seed": 0,
        "steps": 4,
        "width": 64,
        **changed,
    }
    return Picture(prompt=prompt, **given)


def queue(*pictures):
    made = Queue()
    made.add(pictures)
    return made


def test_candidates_are_spread_over_idle_chips_before_they_share_one():
    waiting = queue(*(picture() for _ in range(4)))
    assert [len(waiting.take(idle, 4)) for idle in (4, 3, 2, 1)] == [1, 1, 1, 1]


def test_more_candidates_than_idle_chips_share_them_evenly():
    waiting = queue(*(picture() for _ in range(5)))
    assert [len(waiting.take(idle, 4)) for idle in (2, 1)] == [3, 2]


def test_a_batch_is_never_larger_than_what_programs_are_compiled_for():
    waiting = queue(*(picture() for _ in range(9)))
    assert len(waiting.take(1, 4)) == 4
    assert len(waiting) == 5


def test_pictures_that_differ_in_more_than_prompt_and_seed_are_not_drawn_together():
    for changed in (
        {"height": 32},
        {"width": 32},
        {"steps": 5},
        {"guidance": 1.0},
        {"adapters": ("comic",)},
        {"format": "jpeg"},
        {"model": "mini"},
        {"previews": 1},
    ):
        waiting = queue(picture("a"), picture("b", **changed), picture("c", seed=3))
        assert [one.prompt for one in waiting.take(1, 4)] == ["a", "c"], changed


def test_the_oldest_picture_is_next_whatever_else_waits():
    waiting = queue(picture("old", steps=9), picture("a"), picture("b"))
    assert [one.prompt for one in waiting.take(1, 4)] == ["old"]


def test_a_batch_has_a_prompt_and_a_seed_for_each_picture():
    batch = batch_of([picture("a", seed=1), picture("b", seed=2)])
    assert (batch.prompts, batch.seeds, batch.height) == (("a", "b"), (1, 2), 64)


def test_an_empty_queue_gives_nothing():
    assert queue().take(4, 4) == []


@pytest.mark.parametrize(
    ("steps", "previews", "after"),
    [(28, 3, [7, 14, 21]), (4, 3, [1, 2, 3]), (4, 1, [2]), (2, 3, [1]), (1, 3, []), (28, 0, [])],
)
def test_previews_are_spread_over_the_steps_and_never_after_the_last(steps, previews, after):
    assert batch_of([picture(steps=steps, previews=previews)]).preview_steps == after
