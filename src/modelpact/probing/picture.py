"""Pictures of one colour, to ask a model which colour it sees."""

import base64
import struct
import zlib
from typing import Final

COLOURS: Final[dict[str, tuple[int, int, int]]] = {
    "red": (220, 20, 20),
    "green": (20, 160, 40),
    "blue": (20, 40, 220),
    "yellow": (250, 220, 20),
}


_SIDE: Final = 32


def picture(colour: str) -> str:
    """Return a small PNG of one colour, in base64."""
    line = b"\x00" + bytes(COLOURS[colour]) * _SIDE
    head = struct.pack(">IIBBBBB", _SIDE, _SIDE, 8, 2, 0, 0, 0)
    chunks = (
        _chunk(b"IHDR", head),
        _chunk(b"IDAT", zlib.compress(line * _SIDE, 9)),
        _chunk(b"IEND", b""),
    )
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(chunks)).decode()


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
