"""A picture in fewer bytes: 256 of its colours, and each other one as the nearest of them."""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from typing import Final

_SIGN: Final = b"\x89PNG\r\n\x1a\n"
_COLOURS: Final = 256
_TRUE_COLOURS: Final = {2: 3, 6: 4}  # of a PNG: bytes in a pixel
Colour = tuple[int, int, int]


def smaller(png: bytes) -> bytes:
    """An 8-bit picture in true colours, as browsers take them, with a palette instead."""
    chunks = list(_chunks(png))
    width, height, depth, kind = struct.unpack(">IIBB", chunks[0][1][:10])
    if depth != 8 or kind not in _TRUE_COLOURS:
        raise ValueError(f"not a picture of 8 bits in true colours: {depth}, {kind}")
    lines = _lines(
        zlib.decompress(b"".join(data for name, data in chunks if name == b"IDAT")), width, _TRUE_COLOURS[kind]
    )
    rows = [[tuple(line[at : at + 3]) for at in range(0, len(line), _TRUE_COLOURS[kind])] for line in lines]
    palette, number_of = _palette(rows)
    packed = b"".join(b"\0" + bytes(number_of[colour] for colour in row) for row in rows)
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = ((b"IHDR", head), (b"PLTE", palette), (b"IDAT", zlib.compress(packed, 9)), (b"IEND", b""))
    return _SIGN + b"".join(_chunk(name, data) for name, data in parts)


def _palette(rows: list[list[tuple[int, ...]]]) -> tuple[bytes, dict[tuple[int, ...], int]]:
    counts = Counter(colour for row in rows for colour in row)
    kept = [colour for colour, _ in counts.most_common(_COLOURS // 2)]
    # A small red sign has few pixels, and its colour counts all the same: the most frequent of each corner of the room.
    corners: dict[tuple[int, ...], tuple[int, ...]] = {}
    for colour, _ in counts.most_common():
        corners.setdefault(tuple(part >> 4 for part in colour), colour)
    kept += [colour for colour in corners.values() if colour not in kept][: _COLOURS - len(kept)]
    number_of = {colour: number for number, colour in enumerate(kept)}
    for colour in counts:
        if colour not in number_of:
            nearest = min(
                kept, key=lambda one: sum((mine - theirs) ** 2 for mine, theirs in zip(one, colour, strict=True))
            )
            number_of[colour] = number_of[nearest]
    return bytes(part for colour in kept for part in colour), number_of


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(_SIGN)
    while at < len(png):
        size = int.from_bytes(png[at : at + 4])
        yield png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        at += size + 12


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _lines(packed: bytes, width: int, step: int) -> Iterator[bytearray]:
    """The lines as they are, of which the file has only how they differ from what is left of and above them."""
    size = width * step
    above = bytearray(size)
    for start in range(0, len(packed), size + 1):
        kind, line = packed[start], bytearray(packed[start + 1 : start + 1 + size])
        for at in range(size if kind else 0):
            left = line[at - step] if at >= step else 0
            corner = above[at - step] if at >= step else 0
            line[at] = (line[at] + _guessed(kind, left, above[at], corner)) & 255
        yield line
        above = line


def _guessed(kind: int, left: int, above: int, corner: int) -> int:
    if kind == 4:  # whichever of the three is nearest to what a plane through them would give
        plane = left + above - corner
        return min((left, above, corner), key=lambda one: abs(plane - one))
    return (0, left, above, (left + above) // 2)[kind]
