"""Where a sandbox process begins: a fresh Python that is isolated before its first heavy import and jailed after its last.

The order of the steps in `zygote` is the point of this module; each comment says what it needs from those before it.
"""

from __future__ import annotations

import contextlib
import gc
import os
import platform
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import msgspec

from byref_sandbox.jail.jail import Jail, Layer, Terms, address_space
from byref_sandbox.jail.libc import give_back_memory, name_process
from byref_sandbox.zygote import heap

if TYPE_CHECKING:
    from byref_sandbox.language.policy import Language
    from byref_sandbox.state.known import Known

_CHECK_BYTES = 64 << 20
"""Memory that the check of the layers may use beyond what is mapped."""


def zygote(order_descriptor: int, without: str, modules: str) -> NoReturn:
    """Be the root zygote, from the start of its process to its end.

    `order_descriptor` is its end of the order socket, `without` names the layers of the jail to leave out, `modules` further modules that
    code may import; both are separated by commas.
    """
    started = time.monotonic()
    gc.disable()  # it would look through all that is imported again and again; what is garbage goes at the end
    jail = _begin(without)
    # Moved to a low number: the host's may lie beyond the limit of descriptors that `_begin` has just set.
    orders = socket.socket(fileno=os.dup(order_descriptor))
    os.close(order_descriptor)
    # When the machine runs out of memory, the kernel kills a run and not the host.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")

    with heap.gathered():
        # Imported here and not above: `check` needs none of it, and a library that starts a thread when it is imported would keep
        # `_begin` from making a user namespace.
        from byref_sandbox import wire
        from byref_sandbox.zygote.zygote import Zygote

        language, known = _loaded(jail, modules.split(",") if modules else ())
        # Forks share this process's memory until somebody writes to it, and the collector writes to each object that it looks at.
        # So what is garbage goes now, and what is left is taken out of the collector's sight, for good.
        gc.collect()
    _forget_the_host()
    name_process("byref:root")
    jail.prepare()
    give_back_memory()
    gc.freeze()
    # A fork copies the calling thread alone. A lock that another thread held would stay locked in every run, so the host is told
    # how many threads there are, and tests hold it to one.
    threads = sum(1 for _ in Path("/proc/self/task").iterdir())
    layers = _check_in_child(jail)
    # Standard error goes to a file in the host's memory, for complaints of a start that fails. From now on runs could fill it.
    with Path(os.devnull).open("wb") as nothing:
        os.dup2(nothing.fileno(), 2)
    wire.send(orders, wire.Ready(layers, threads, round((time.monotonic() - started) * 1000, 1)))
    Zygote(orders, jail, language, known).serve()


def _loaded(jail: Jail, modules: Sequence[str]) -> tuple[Language, Known]:
    """Import and do all that runs may need, and return the language, and what streams of a session's names may name."""
    from byref_sandbox.code import sqltext
    from byref_sandbox.code.libraries import LIBRARIES
    from byref_sandbox.documents import reading
    from byref_sandbox.jail.identity import can_nobody_read
    from byref_sandbox.language import science
    from byref_sandbox.language.policy import Language
    from byref_sandbox.run import sqlbody
    from byref_sandbox.state.known import Known
    from byref_sandbox.values import plots
    from byref_sandbox.zygote.runs import Runs
    from byref_sandbox.zygote.warm import warm

    language = Language(modules)
    warm(language)
    if plots.must_be_loaded_early():
        language.load_plots()
    science.load_parts_of_python()
    for library in (*LIBRARIES, *language.allowed):
        if science.must_be_loaded_early(library):
            language.learn(language.allowed.get(library, library))
    if not can_nobody_read(Path(os.__file__).resolve()):
        reading.load_all()
    if sqltext.is_available():
        sqlbody.warm()
    known = Known(language)
    Runs(jail, language, None, known).practise()
    return language, known


def check(without: str) -> None:
    """Enter a jail in which nothing is imported and print its layers as JSON: `probe` asks so, in a tenth of a second."""
    jail = _begin(without)
    jail.prepare()
    layers = _check_in_child(jail)
    sys.stdout.write(msgspec.json.encode(layers).decode())


def _forget_the_host() -> None:
    """Remove what Python remembers of the host: command line and host name. Paths of imported modules stay."""
    sys.argv = [""]
    vars(platform)["_uname_cache"] = platform.uname()._replace(node="")


def _begin(without: str) -> Jail:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the host, which ends us as it wants
    jail = Jail(without.split(",") if without else ())
    jail.isolate()
    return jail


def _check_in_child(jail: Jail) -> list[Layer]:
    """Return the layers as a run would find them: a fork enters the jail, tests it and ends.

    Empty if the fork ended without a word, which `require` takes for every layer missing.
    """
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
        report = pipe.read()
    os.waitpid(pid, 0)
    return msgspec.json.decode(report, type=list[Layer]) if report else []
