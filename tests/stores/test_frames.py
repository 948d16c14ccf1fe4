"""A frame is uncompressed as far as its reader goes, whatever its stored bytes say."""

from __future__ import annotations

from random import Random

import pytest
import zstandard

from byref.stores.frames import unpack_from

TEXT = b"".join(b"%d %d\n" % (number, Random(number).getrandbits(200)) for number in range(6_000))
PACKED = zstandard.ZstdCompressor(level=1).compress(TEXT)
PIECE = 1 << 16
WIDE = zstandard.ZstdCompressor(compression_params=zstandard.ZstdCompressionParameters(window_log=25)).compressobj()
"""It is not told how much comes, so that its frames want the whole window."""


@pytest.mark.parametrize("feeds", [-3, 0, 1, 2_500, 5_999, 6_000])
def test_pieces_from_a_line_are_the_rest_of_the_frame(feeds: int) -> None:
    pieces = list(unpack_from("zstd", PACKED, len(TEXT), feeds))
    begin, before, first = pieces[0]
    assert b"".join(data for _, _, data in pieces) == TEXT[begin:]
    assert [at for at, _, _ in pieces] == [begin, begin + len(first)][: len(pieces)]
    assert all(count == TEXT.count(b"\n", 0, at) for at, count, _ in pieces)
    assert before <= max(feeds, 0) <= before + first.count(b"\n")
    assert len(first) <= PIECE


def test_no_more_is_uncompressed_than_is_asked_for() -> None:
    torn = unpack_from("zstd", PACKED[: len(PACKED) // 2], len(TEXT), 10)
    assert next(torn) == (0, 0, TEXT[:PIECE])
    with pytest.raises(ValueError, match="damaged frame"):
        next(torn)


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (b"no frame", len(TEXT)),
        (PACKED, len(TEXT) - 1),
        (PACKED, len(TEXT) + 1),
        (zstandard.ZstdCompressor(write_content_size=False).compress(TEXT), len(TEXT) - 1),
        (zstandard.ZstdCompressor(write_content_size=False).compress(TEXT), len(TEXT) + 1),
        (WIDE.compress(TEXT) + WIDE.flush(), len(TEXT)),
    ],
    ids=["no frame", "says more", "says less", "has more", "has less", "takes 32 MiB"],
)
def test_what_stored_bytes_say_does_not_count(data: bytes, size: int) -> None:
    with pytest.raises(ValueError, match="damaged frame"):
        list(unpack_from("zstd", data, size, 0))
