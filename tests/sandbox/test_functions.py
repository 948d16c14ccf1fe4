"""What a host says to a run on the line of its functions, as the run reads it."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import threading
import tracemalloc
from collections.abc import Iterator

import pytest

from byref_sandbox import functions
from byref_sandbox.functions import LONG_BYTES, Answer, Answers, Raised, Received, Returned
from byref_sandbox.values import data

SIZES = (0, 255, 256, 65_536, LONG_BYTES - 2, LONG_BYTES - 1, LONG_BYTES, 2 * LONG_BYTES, 300)


def text(size: int) -> bytes:
    return b'"' + b"a" * size + b'"'


MESSAGES: tuple[Answer, ...] = (
    *(Returned(number, data.JSON, text(size)) for number, size in enumerate(SIZES)),
    Raised(len(SIZES), "ValueError", "no"),
    *(Returned(len(SIZES) + 1 + number, data.JSON, text(size)) for number, size in enumerate(reversed(SIZES))),
)


@pytest.fixture
def line() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def parts(message: Answer | Received) -> tuple[object, ...]:
    if isinstance(message, Raised):
        return message.number, message.kind, message.message
    return message.number, message.content_type, data.decode(message.content_type, message.data)


@pytest.mark.parametrize("step", [LONG_BYTES, 200_000, 70_001])
def test_messages_of_all_sizes_come_whatever_comes_of_them_at_once(
    line: tuple[socket.socket, socket.socket], step: int
) -> None:
    stream = memoryview(b"".join(itertools.chain.from_iterable(map(functions.pieces, MESSAGES))))
    ours, theirs = line
    ours.setblocking(False)
    answers, got, sent = Answers(), list[Answer | Received](), 0
    while len(got) < len(MESSAGES):
        with contextlib.suppress(BlockingIOError):
            sent += ours.send(stream[sent : sent + step])
        got += answers.read(theirs.fileno())
    assert sent == len(stream)
    assert list(map(parts, got)) == list(map(parts, MESSAGES))
    ours.close()
    with pytest.raises(EOFError):
        answers.read(theirs.fileno())


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: len(getattr(message, "data", "")))
def test_what_is_sent_in_pieces_is_one_message_of_msgpack(message: Answer) -> None:
    assert functions.from_host().feed(b"".join(functions.pieces(message))) == [message]


def test_the_end_of_a_host_amid_a_long_message_is_told(line: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = line
    ours.send(b"".join(functions.pieces(Returned(0, data.JSON, text(3 * LONG_BYTES))))[:100_000])
    ours.close()
    answers = Answers()
    assert not answers.read(theirs.fileno())
    with pytest.raises(EOFError):
        answers.read(theirs.fileno())


def test_a_large_result_is_not_copied_on_its_way(line: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = line
    message = Returned(0, data.BYTES, os.urandom(1024) * (32 << 10))

    def send() -> None:
        for piece in functions.pieces(message):
            ours.sendall(piece)

    tracemalloc.start()
    try:
        sender = threading.Thread(target=send)
        sender.start()
        answers, got = Answers(), list[Answer | Received]()
        while not got:
            got += answers.read(theirs.fileno())
        sender.join()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    [answer] = got
    assert isinstance(answer, Received) and answer.data == message.data
    assert peak < len(message.data) + 4 * LONG_BYTES
