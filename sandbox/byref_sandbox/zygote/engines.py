"""What other packages do, for pandas unasked, in the form that a run can have: without files and without threads."""

from __future__ import annotations

import contextlib
import importlib
import zoneinfo
from typing import Any

import pyarrow
from pyarrow import compute


def make_ready(pandas: Any) -> None:
    """In the root zygote: Arrow on one thread, what renders tables as text with its templates read, and Jinja for templates."""
    pyarrow.set_cpu_count(1)
    pyarrow.set_io_thread_count(1)
    _group_on_this_thread(pyarrow.lib)
    _load_zones()
    with contextlib.suppress(ImportError):  # of a package that was uninstalled: pandas says so when it is needed
        _load_formats(pandas)
    with contextlib.suppress(ImportError):
        importlib.import_module("byref_sandbox.run.templateworker").templates.warm()


def _group_on_this_thread(lib: Any) -> None:
    """Have Arrow group on the thread that asks: pandas groups its text so, and its decimals and dates, and a run has no other thread.

    pandas could be kept from it, but what it does instead knows no `min_count` and rounds decimals.
    """
    importlib.import_module("pyarrow.acero")
    threaded = lib.TableGroupBy

    class GroupBy(threaded):  # type: ignore[misc, valid-type]
        def __init__(self, table: Any, keys: Any, use_threads: bool = True) -> None:
            super().__init__(table, keys, use_threads=False)

    lib.TableGroupBy = GroupBy


def _load_formats(pandas: Any) -> None:
    """`to_latex` and `to_markdown`: Jinja reads a template when it is first used, and then looks whether its file has changed."""
    frame = pandas.DataFrame({"text": ["a"], "number": [1.5]})
    frame.to_latex(), frame.to_latex(longtable=True)
    importlib.import_module("pandas.io.formats.style").Styler.env.auto_reload = False
    frame.to_markdown()


def _load_zones() -> None:
    """Arrow has a database of time zones of its own, and reads a zone when it is first used: where it cannot, the process ends."""
    moment = pyarrow.array([0], pyarrow.timestamp("s"))
    for zone in sorted(zoneinfo.available_timezones()):
        with contextlib.suppress(pyarrow.ArrowInvalid):  # one that is not in its database
            compute.assume_timezone(moment, zone)
