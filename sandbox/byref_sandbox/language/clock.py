"""The clock that code reads: the system's, unless the run is one that may be repeated. Then it begins as in its first run."""

from __future__ import annotations

import ctypes
import datetime
import gc
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

_NANOS: Final = 1_000_000_000
_time_ns, _localtime, _gmtime, _ctime, _strftime = time.time_ns, time.localtime, time.gmtime, time.ctime, time.strftime
_offset = 0
"""Nanoseconds by which this process's clock is ahead of the system's."""


def set_clock(seconds: float) -> None:
    """Have the clock of this process begin at `seconds` since 1970, and go on from there; it cannot be set back.

    It is also the clock of libraries, except for the little that reads the system's in compiled code of its own, as
    `np.datetime64("now")` does.
    """
    global _offset
    _offset = round(seconds * _NANOS) - _time_ns()
    vars(time).update(time_names())
    _replace(datetime.date, {"today": classmethod(_today)})
    _replace(datetime.datetime, {"now": classmethod(_now), "utcnow": classmethod(_utcnow)})


def time_names() -> dict[str, object]:
    """Return the functions of the module `time` that read this clock."""
    return {
        "time": _seconds,
        "time_ns": _nanos,
        "localtime": _of_moment(_localtime),
        "gmtime": _of_moment(_gmtime),
        "ctime": _of_moment(_ctime),
        "asctime": _asctime,
        "strftime": _formatted,
    }


def _nanos() -> int:
    return _time_ns() + _offset


def _seconds() -> float:
    return _nanos() / _NANOS


def _of_moment(real: Callable[[float], Any]) -> Callable[..., Any]:
    def function(seconds: Any = None, /) -> Any:
        return real(_seconds() if seconds is None else seconds)

    function.__name__ = function.__qualname__ = real.__name__
    return function


_real_asctime = time.asctime


def _asctime(t: Any = None, /) -> str:
    return _real_asctime(_localtime(_seconds()) if t is None else t)


def _formatted(format: str, t: Any = None, /) -> str:
    return _strftime(format, _localtime(_seconds()) if t is None else t)


for _name, _function in (("time", _seconds), ("time_ns", _nanos), ("asctime", _asctime), ("strftime", _formatted)):
    _function.__name__ = _function.__qualname__ = _name


def _today(cls: Any) -> Any:
    return cls.fromtimestamp(_seconds())


def _now(cls: Any, tz: Any = None) -> Any:
    return cls.fromtimestamp(_seconds(), tz)


def _utcnow(cls: Any) -> Any:
    return cls.fromtimestamp(_seconds(), datetime.UTC).replace(tzinfo=None)


def _replace(kind: type, methods: Mapping[str, Any]) -> None:
    """Replace methods of a class that is written in C, so that compiled code of libraries that calls them sees the same clock."""
    (namespace,) = gc.get_referents(vars(kind))
    namespace.update(methods)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))
