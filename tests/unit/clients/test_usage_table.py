"""The table of bodies with which Go tests what the gate and the relay reserve."""

import json
import os

from tests.unit.clients.usage_table import CONTEXT, TABLE, rows, written


def test_the_table_has_the_largest_usage_that_a_simulated_engine_reports():
    if os.environ.get("UPDATE_GOLDEN"):
        TABLE.parent.mkdir(parents=True, exist_ok=True)
        TABLE.write_text(written(), encoding="utf-8")
    assert json.loads(TABLE.read_text(encoding="utf-8")) == {"context": CONTEXT, "rows": rows()}


def test_the_table_has_every_path_with_and_without_a_limit_and_several_prompts():
    found = rows()
    for path in sorted({row["path"] for row in found}):
        assert sum(row["path"] == path for row in found) >= 20, path
    unlimited = [row for row in found if not any("max_" in name for name in row["body"])]
    assert {"/v1/chat/completions", "/v1/completions"} <= {row["path"] for row in unlimited}
    assert any(row["answer"] > CONTEXT for row in found)
    assert any("image_url" in json.dumps(row["body"]) for row in found)
