"""What published claims about image generation require, beside published figures."""

from planner.unit_cost.image_claims import Figure, figures


def of(claim: str) -> list[Figure]:
    return [each for each in figures() if each.claim == claim]


def test_a_v6e_is_three_times_an_a100_only_where_the_a100_is_not_optimized():
    found = of("3 to 7 times an A100")
    assert [(each.value, each.holds) for each in found] == [
        ("2.8 times", False),
        ("2.6 times", False),
        ("6.7 times", True),
        ("4.2 times", True),
        ("3.0 times", True),
        ("2.3 times", False),
        ("2.9 times", False),
    ]
    assert found[0].required.endswith("16.6 to 38.6 s on an A100")
    assert found[2].required.startswith("stable-diffusion-xl, 20 steps in 0.7 s on a v6e")


def test_a_thousand_images_cost_22_cents_on_spot_or_at_the_full_peak():
    found = of("22 cents per 1,000 images")
    demand, committed, spot = (
        {each.figure: each.value for each in found if term in each.required}
        for term in ("on demand", "three-year", "Spot in us-central1")
    )
    assert [
        (each.required.split(" (")[1].split(")")[0], each.figure) for each in found if each.holds
    ] == [
        ("on demand", "full peak: stable-diffusion-xl, 20 steps"),
        ("three-year commitment", "full peak: flux.1-schnell, 4 steps"),
        ("three-year commitment", "full peak: stable-diffusion-xl, 20 steps"),
        ("Spot in us-central1", "published: flux.1-schnell, 4 steps"),
        ("Spot in us-central1", "published: stable-diffusion-xl, 20 steps"),
        ("Spot in us-central1", "compiler estimate: flux.1-schnell, 4 steps"),
        ("Spot in us-central1", "full peak: flux.1-schnell, 4 steps"),
        ("Spot in us-central1", "full peak: stable-diffusion-xl, 20 steps"),
    ]
    assert spot["published: flux.1-schnell, 4 steps"] == "0.82 s, $0.12"
    assert demand["published: flux.1-schnell, 4 steps"] == "0.82 s, $0.62"
    assert committed["published: stable-diffusion-xl, 20 steps"] == "0.74 s, $0.25"
    assert demand["full peak: flux.1-schnell, 4 steps"] == "0.30 s, $0.23"


def test_half_a_million_images_a_day_need_two_slices_of_four_chips():
    values = {each.figure: each.value for each in of("500,000 images a day")}
    assert values["published: flux.1-schnell, 4 steps"] == "0.82 s, 5 busy chips, 7 at 70%"
    assert values["compiler estimate: flux.1-schnell, 4 steps"] == "1.01 s, 6 busy chips, 9 at 70%"
    assert {each.holds for each in of("500,000 images a day")} == {None}
