"""A minimal MP4 file of JPEG images, without an encoder of videos.

Boxes as in ISO/IEC 14496-12; the sample entry `mp4v` with object type 0x6C (JPEG) as in 14496-1.
The box of a sample's place may name one image several times, so a still costs one image.
"""

import struct
from collections.abc import Sequence

_JPEG = 0x6C
_VISUAL = 0x04
_TIMESCALE = 1_000
_UNITY = struct.pack(">9i", 0x1_0000, 0, 0, 0, 0x1_0000, 0, 0, 0, 0x4000_0000)


def written(images: Sequence[bytes], width: int, height: int, fps: int) -> bytes:
    """Return an MP4 file.

    Args:
        images: JPEG file of each frame. Equal ones that follow each other are stored once.
        width: Pixels.
        height: Pixels.
        fps: Frames per second.
    """
    head = _box(b"ftyp", b"isom", struct.pack(">I", 0x200), b"isomiso2mp41")
    start, places, data = len(head) + 8, list[int](), list[bytes]()
    for image in images:
        if not data or data[-1] != image:
            places.append(start + sum(map(len, data)))
            data.append(image)
        else:
            places.append(places[-1])
    sizes = [len(image) for image in images]
    return head + _box(b"mdat", *data) + _moov(places, sizes, width, height, fps)


def _moov(places: list[int], sizes: list[int], width: int, height: int, fps: int) -> bytes:
    count = len(sizes)
    duration = round(count * _TIMESCALE / fps)
    table = _box(
        b"stbl",
        _full(b"stsd", struct.pack(">I", 1), _entry(width, height)),
        _full(b"stts", struct.pack(">III", 1, count, 1)),
        _full(b"stsc", struct.pack(">IIII", 1, 1, 1, 1)),
        _full(b"stsz", struct.pack(f">II{count}I", 0, count, *sizes)),
        _full(b"stco", struct.pack(f">I{count}I", count, *places)),
    )
    media = _box(
        b"mdia",
        _full(b"mdhd", struct.pack(">IIIIHH", 0, 0, fps, count, 0x55C4, 0)),
        _full(b"hdlr", struct.pack(">I4s12x", 0, b"vide"), b"\0"),
        _box(
            b"minf",
            _full(b"vmhd", bytes(8), flags=1),
            _box(b"dinf", _full(b"dref", struct.pack(">I", 1), _full(b"url ", flags=1))),
            table,
        ),
    )
    shown = struct.pack(">II", width << 16, height << 16)
    track = _full(
        b"tkhd", struct.pack(">IIIII", 0, 0, 1, 0, duration), bytes(16), _UNITY, shown, flags=3
    )
    movie = struct.pack(">IIIIIH10x", 0, 0, _TIMESCALE, duration, 0x1_0000, 0x100)
    return _box(
        b"moov",
        _full(b"mvhd", movie, _UNITY, bytes(24), struct.pack(">I", 2)),
        _box(b"trak", track, media),
    )


def _entry(width: int, height: int) -> bytes:
    """Return the sample entry: images of a size, each a whole JPEG file."""
    config = struct.pack(">BBBIII", 0x04, 13, _JPEG, _VISUAL << 26 | 1 << 24, 0, 0)
    stream = struct.pack(">BBHB", 0x03, 3 + len(config) + 3, 1, 0) + config + b"\x06\x01\x02"
    return _box(
        b"mp4v",
        struct.pack(">6xH16xHHIIIH32xHh", 1, width, height, 72 << 16, 72 << 16, 0, 1, 24, -1),
        _full(b"esds", stream),
    )


def _full(kind: bytes, *parts: bytes, flags: int = 0) -> bytes:
    return _box(kind, struct.pack(">I", flags), *parts)


def _box(kind: bytes, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return struct.pack(">I4s", 8 + len(body), kind) + body
