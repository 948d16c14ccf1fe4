"""A frame is uncompressed as far as its reader goes, whatever its stored bytes say."""

from __future__ import annotations

import tracemalloc
from random import Random

import pytest
import zstandard

from byref.stores import frames
from byref.stores.frames import Beginning, unpack_from, unpack_within

TEXT = b"".join(b"%d %d\n" % (number, Random(number).getrandbits(200)) for number in range(6_000))
PACKED = zstandard.ZstdCompressor(level=1).compress(TEXT)
PIECE = 1 << 16
WIDE = zstandard.ZstdCompressor(compression_params=zstandard.ZstdCompressionParameters(window_log=25)).compressobj()
"""It is not told how much comes, so that its frames want the whole window."""


TEXTS = {
    "of any lines": TEXT,
    "with a line feed at the end of each piece": (b"x" * 255 + b"\n") * 1_024,
    "with one at each beginning": b"\n" + (b"x" * 255 + b"\n") * 1_023,
    "of line feeds": b"\n" * (3 * PIECE + 1),
    "of one line": b"x" * (3 * PIECE),
    "of one piece": TEXT[:PIECE],
    "of a byte more": TEXT[: PIECE + 1],
    "of nothing": b"",
}


def assert_from(packed: bytes, text: bytes, feeds: int) -> None:
    pieces = list(unpack_from("zstd", packed, len(text), feeds))
    begin, before, first = pieces[0]
    assert b"".join(data for _, _, data in pieces) == text[begin:]
    assert [at for at, _, _ in pieces] == [begin, begin + len(first)][: len(pieces)]
    assert all(count == text.count(b"\n", 0, at) for at, count, _ in pieces)
    assert before <= max(feeds, 0) <= before + first.count(b"\n") or begin + len(first) == len(text)
    assert before < max(feeds, 1)
    assert len(first) <= PIECE


@pytest.mark.parametrize("name", TEXTS)
def test_pieces_from_a_line_are_the_rest_of_the_frame(name: str) -> None:
    text = TEXTS[name]
    packed = zstandard.ZstdCompressor(level=1).compress(text)
    every = text.count(b"\n")
    at_ends = [text.count(b"\n", 0, end) for end in range(PIECE, len(text), PIECE)]
    for feeds in {each + more for each in (0, every // 2, *at_ends, every) for more in (-1, 0, 1)}:
        assert_from(packed, text, feeds)


@pytest.mark.parametrize("name", TEXTS)
def test_readers_of_one_frame_get_what_each_would_get_alone(name: str) -> None:
    text = TEXTS[name]
    packed = zstandard.ZstdCompressor(level=1).compress(text)
    every = text.count(b"\n")
    of_pieces = [text.count(b"\n", 0, end) + more for end in range(0, len(text), PIECE) for more in (-1, 0, 1)]
    for seed in range(20):
        random, known = Random(seed), Beginning()
        for feeds in random.choices([*of_pieces, every, every + 1, *range(0, every, 1 + every // 9)], k=6):
            alone = unpack_from("zstd", packed, len(text), feeds)
            together = unpack_from("zstd", packed, len(text), feeds, known)
            if random.random() < 0.5:
                assert list(together) == list(alone)
            else:
                assert next(together) == next(alone)
            assert text.startswith(known.found[0])


def test_no_reader_but_the_first_two_of_a_frame_uncompresses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    known = Beginning()
    wanted = 100, 3_000, 6_000, 2_000, 4_500
    firsts = [next(unpack_from("zstd", PACKED, len(TEXT), feeds)) for feeds in wanted]
    assert next(unpack_from("zstd", PACKED, len(TEXT), wanted[0], known)) == firsts[0]
    assert known.found[0] == TEXT[:PIECE]
    assert next(unpack_from("zstd", PACKED, len(TEXT), wanted[1], known)) == firsts[1]
    monkeypatch.delattr(frames, "zstandard")
    for feeds, first in zip(wanted, firsts, strict=True):
        assert next(unpack_from("zstd", PACKED, len(TEXT), feeds, known)) == first


def test_what_was_not_compressed_comes_whole() -> None:
    assert list(unpack_from("none", TEXT, len(TEXT), 5_000)) == [(0, 0, TEXT)]
    with pytest.raises(ValueError, match="damaged frame"):
        list(unpack_from("none", TEXT[1:], len(TEXT), 5_000))


@pytest.mark.parametrize("feeds", [0, 3_000, 6_000, 7_000])
def test_a_frame_that_was_cut_is_damaged(feeds: int) -> None:
    for end in (*range(12), *range(100, len(PACKED), len(PACKED) // 7), len(PACKED) - 1):
        with pytest.raises(ValueError, match="damaged frame"):
            list(unpack_from("zstd", PACKED[:end], len(TEXT), feeds))


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


def test_what_says_another_size_is_not_begun() -> None:
    for size in (len(TEXT) - 1, len(TEXT) + 1):
        with pytest.raises(ValueError, match="damaged frame"):
            next(unpack_from("zstd", PACKED, size, 0))


FORGED = b"\x28\xb5\x2f\xfd\xe0" + (1 << 40).to_bytes(8, "little") + b"\x01\x00\x00"
"""A frame that says it holds a tebibyte."""


@pytest.mark.parametrize("data", [FORGED, b"", b"17", PACKED[:-9], zstandard.compress(bytes(len(TEXT) + 1))])
def test_what_is_damaged_or_too_large_within_a_bound(data: bytes) -> None:
    assert unpack_within(PACKED, len(TEXT)) == TEXT
    with pytest.raises(ValueError, match="damaged frame"):
        unpack_within(data, len(TEXT))


def test_a_bomb_takes_no_more_memory_than_the_frame_that_it_should_be() -> None:
    bomb = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(1 << 26))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="damaged frame"):
            list(unpack_from("zstd", bomb, 1 << 20, 0))
        assert tracemalloc.get_traced_memory()[1] < 3 << 20
    finally:
        tracemalloc.stop()
