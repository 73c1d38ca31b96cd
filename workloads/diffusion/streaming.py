"""Streamed responses: previews of images, then the images, as server-sent events.

Events have OpenAI's names and fields, `image_generation.partial_image` and
`image_generation.completed` (openai-python 3.52, `types/image_gen_partial_image_event.py` and
`types/image_gen_completed_event.py`), and `image_edit` in their place for edits
(`types/image_edit_completed_event.py`). They have no `usage`, which counts tokens of GPT image
models. OpenAI's events do not identify an image of a request with several. Here, each also has its
`seed`, the same as in a response that is not streamed.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from .protocol import ApiError, ImageRequest, seeds
from .service import Shown

_HEADERS = {"Cache-Control": "no-cache", "Content-Type": "text/event-stream"}


def event(request: ImageRequest, number: int, preview: int | None, image: str) -> dict[str, Any]:
    """Return the event of an image.

    Args:
        request: The request.
        number: Number of the image in the request, from 0.
        preview: Index of the preview, from 0, or None for the finished image.
        image: The file, in base64.
    """
    kind = "completed" if preview is None else "partial_image"
    about = "image_generation" if request.edit is None else "image_edit"
    fields = {
        "b64_json": image,
        "background": "opaque",
        "created_at": int(time.time()),
        "output_format": request.format,
        "quality": "auto",
        "seed": seeds(request)[number],
        "size": f"{request.width}x{request.height}",
        "type": f"{about}.{kind}",
    }
    return fields if preview is None else {**fields, "partial_image_index": preview}


async def respond(
    request: web.Request, asked: ImageRequest, draw: Callable[[Shown], Awaitable[list[str]]]
) -> web.StreamResponse:
    """Stream the events of a request.

    The response begins with the first event. An error before that has its HTTP status; a later one
    is an event with `error`, after which the stream ends.

    Raises:
        ApiError: The request failed before its first event.
    """
    events: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()

    def shown(number: int, preview: int | None, image: str) -> None:
        events.put_nowait(event(asked, number, preview, image))

    drawing = asyncio.ensure_future(draw(shown))
    drawing.add_done_callback(lambda _: events.put_nowait(None))
    response = web.StreamResponse(headers=_HEADERS)
    try:
        while (found := await events.get()) is not None:
            if not response.prepared:
                await response.prepare(request)
            await response.write(_packed(found))
        await drawing
    except ApiError as error:
        if not response.prepared:
            raise
        await response.write(_packed({"type": "error", **error.body()}))
    except ConnectionError:
        return response  # the client is gone
    finally:
        drawing.cancel()
        with contextlib.suppress(asyncio.CancelledError, ApiError):
            await drawing
    await response.write_eof()
    return response


def _packed(found: dict[str, Any]) -> bytes:
    return f"event: {found['type']}\ndata: {json.dumps(found)}\n\n".encode()
