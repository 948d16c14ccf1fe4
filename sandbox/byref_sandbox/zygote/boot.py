"""Where a sandbox process begins: a fresh Python, isolated before its first heavy import, jailed after its last."""

from __future__ import annotations

import contextlib
import gc
import os
import platform
import signal
import socket
import sys
import time
from pathlib import Path
from typing import NoReturn

import msgspec

from byref_sandbox.jail.jail import Jail, Layer, Terms, address_space
from byref_sandbox.jail.libc import give_back_memory, name_process

_CHECK_BYTES = 64 << 20


def zygote(order_descriptor: int, without: str) -> NoReturn:
    """The root zygote; `without` names the layers left out, separated by commas."""
    started = time.monotonic()
    jail = _begin(without)
    orders = socket.socket(fileno=os.dup(order_descriptor))  # low, whatever the host's number was
    os.close(order_descriptor)
    # A run that eats the machine's memory is the first to go, not the host.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")

    from byref_sandbox import wire
    from byref_sandbox.code import sqltext
    from byref_sandbox.language.policy import Language
    from byref_sandbox.run import sqlbody
    from byref_sandbox.values import plots
    from byref_sandbox.zygote.warm import warm
    from byref_sandbox.zygote.zygote import Zygote

    language = Language()
    warm(language)
    if plots.must_be_loaded_early():
        language.load_plots()
    if sqltext.is_available():
        sqlbody.warm()
    _forget_the_host()
    name_process("byref:root")
    jail.prepare()
    gc.collect()
    give_back_memory()
    gc.freeze()
    gc.disable()
    threads = sum(1 for _ in Path("/proc/self/task").iterdir())
    layers = _check_in_child(jail)
    # Whatever is said on standard error from now on would pile up in the host's memory.
    with Path(os.devnull).open("wb") as nothing:
        os.dup2(nothing.fileno(), 2)
    wire.send(orders, wire.Ready(layers, threads, round((time.monotonic() - started) * 1000, 1)))
    Zygote(orders, jail, language).serve()


def check(without: str) -> None:
    """Enters the jail with nothing in it and prints its layers as JSON."""
    jail = _begin(without)
    jail.prepare()
    layers = _check_in_child(jail)
    sys.stdout.write(msgspec.json.encode(layers).decode())


def _forget_the_host() -> None:
    """What Python remembers of it: command line and host name; paths of imported modules stay."""
    sys.argv = [""]
    vars(platform)["_uname_cache"] = platform.uname()._replace(node="")


def _begin(without: str) -> Jail:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    jail = Jail(without.split(",") if without else ())
    jail.isolate()
    return jail


def _check_in_child(jail: Jail) -> list[Layer]:
    """The layers as a run would find them: tested in a fork, which then ends."""
    read_end, write_end = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            terms = Terms((write_end,), address_space() + _CHECK_BYTES, 5.0, parent)
            os.write(write_end, msgspec.json.encode(jail.check(terms)))
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        told = pipe.read()
    os.waitpid(pid, 0)
    return msgspec.json.decode(told, type=list[Layer]) if told else []
