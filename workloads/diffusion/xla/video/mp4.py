"""Frames as an MP4 file, encoded on a thread of its own while the next frames are decoded."""

import io
from concurrent.futures import Future, ThreadPoolExecutor
from fractions import Fraction
from types import TracebackType
from typing import Any

import av
import numpy as np

CODEC = "libx264"
_QUALITY = {"crf": "18", "preset": "veryfast"}
"""libx264's constant rate factor, of which 18 is about visually lossless (trac.ffmpeg.org's guide
for H.264); its fast presets make larger files of the same quality."""


class Mp4:
    """A file that grows by frames; use it as a context manager.

    Args:
        width: In pixels.
        height: In pixels.
        fps: Frames per second.
    """

    def __init__(self, width: int, height: int, fps: int) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._written: list[Future[None]] = []
        self._out = io.BytesIO()
        self._file: Any = av.open(self._out, "w", format="mp4")
        self._stream: Any = self._file.add_stream(CODEC, rate=Fraction(fps), options=_QUALITY)
        self._stream.width, self._stream.height = width, height
        self._stream.pix_fmt = "yuv420p"

    def __enter__(self) -> "Mp4":
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Wait for the thread, and free the encoder."""
        self._thread.shutdown(cancel_futures=True)
        self._file.close()

    def add(self, frames: np.ndarray) -> None:
        """Append frames, [frames, height, width, 3] of bytes; returns before they are encoded."""
        self._written.append(self._thread.submit(self._encode, frames))

    def finish(self) -> bytes:
        """Return the file when all frames are encoded."""
        for each in self._written:
            each.result()
        for packet in self._stream.encode():
            self._file.mux(packet)
        self._file.close()
        return self._out.getvalue()

    def _encode(self, frames: np.ndarray) -> None:
        for pixels in frames:
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")
            for packet in self._stream.encode(frame):
                self._file.mux(packet)
