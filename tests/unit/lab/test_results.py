"""The page of the docs says what the file says."""

from twin.lab.bounds import check
from twin.lab.calibration import calibration_errors
from twin.lab.results import page


def result(rows):
    checks = check(rows)
    return {
        "date": "2026-11-21", "command": "gke-inference bench routing", "machine": "2 cores",
        "seconds": 900.0, "picker": "v1.2.0", "rows": rows,
        "checks": [one.as_dict() for one in checks], "calibration": calibration_errors(rows),
    }  # fmt: skip


def test_every_bound_and_every_row_is_on_the_page(rows):
    text = page(result(rows))
    assert "| lora: adapters stay | throughput at 24 QPS | 2 | at least 1.3 | holds |" in text
    assert "| 60 | shipped | 200 | 1 / 2 / 300 | 1 / 3 | 2.00 | 5.00 | 50% |" in text
    assert "images/routing-shared-prefix.svg" in text
    assert "| 20 | round_robin | 6,205 | 100 | -98% | 18.1 | 0.5 |" in text


def test_a_bound_that_fails_is_seen_on_the_page(rows):
    rows[-1]["lost"] = 1
    assert "**fails**" in page(result(rows))
