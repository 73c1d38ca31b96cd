"""JSON answers as the real servers write them.

vLLM, SGLang and Triton answer through Starlette's JSONResponse, TGI through serde_json: no spaces,
no escaped letters, and a content type without a charset.
"""

import json
from collections.abc import Mapping
from typing import Any

from aiohttp import web


def json_response(
    body: Any, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """Return an answer with a JSON body."""
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return web.Response(
        body=text.encode(), content_type="application/json", headers=headers, status=status
    )
