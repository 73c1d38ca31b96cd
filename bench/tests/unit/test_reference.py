"""The page of `bench` has every subject with its options, and is current."""

from bench.measures import MEASURES
from bench.reference import PAGE, bench_page


def test_the_generated_page_is_not_stale():
    assert PAGE.read_text() == bench_page(), "run `make docs`"


def test_every_subject_and_its_options_are_on_the_page():
    text = bench_page()
    for name in (*MEASURES, "all", "confirm", "fairness", "routing"):
        assert f"\n## bench {name}\n" in text
    for option in ("--plots", "--policy VALUE", "--quick", "--runs VALUE", "--workers VALUE"):
        assert f"`{option}`" in text
