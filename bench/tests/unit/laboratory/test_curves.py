"""Every workload has a chart with a line for each policy that was run."""

from bench.laboratory.curves import draw, points


def test_a_point_is_the_mean_over_seeds(rows):
    again = [{**row, "seed": 2, "throughput_tok_s": 300.0} for row in rows]
    found = points(rows + again, "lora", "round_robin", "throughput_tok_s")
    assert found == [(12.0, 200.0), (24.0, 200.0)]


def test_each_workload_is_drawn_the_same_way_twice(rows, tmp_path):
    first = draw(rows, tmp_path / "a")
    second = draw(rows, tmp_path / "b")
    names = [file.name for file in first]
    assert names == [
        "routing-shared-prefix.svg",
        "routing-lora.svg",
        "routing-mixed-lengths.svg",
        "routing-unequal-hardware.svg",
    ]
    assert [f.read_text() for f in first] == [f.read_text() for f in second]
    assert all("shipped" in f.read_text() or "<path" in f.read_text() for f in first)
