"""What the libraries of `byref[science]` cost, as ratios: `python -m benchmarks.libraries`.

The first use in a new engine and in a new session are compared with a plain Python that imports the library, the memory of an idle
session with that of one beside which nobody has used a library, and the start of a sandbox with a plain Python that imports pandas.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from byref_sandbox import Sandbox

CODE = {
    "scipy": "from scipy import stats\nfloat(stats.norm.cdf(0))",
    "sklearn": "from sklearn.linear_model import LinearRegression\nLinearRegression().fit([[1], [2]], [1, 2]).coef_[0] > 0",
    "statsmodels": "import statsmodels.api as sm\nsm.OLS([1.0, 2, 3], [1.0, 2, 3]).fit().params[0] > 0",
    "seaborn": "import seaborn as sns\nlen(sns.color_palette())",
    "sympy": "import sympy as sp\nstr(sp.sqrt(4))",
    "networkx": "import networkx as nx\nnx.path_graph(3).number_of_edges()",
}
SESSIONS = 4
RUNS = 60
MOST_IN_AN_ENGINE, MOST_IN_A_BRANCH, MOST_IN_A_SESSION, MOST_MEMORY = 2.5, 0.6, 0.6, 1 << 20
"""Seconds, and bytes, that are allowed."""


def main() -> None:
    """Print one line for each figure."""
    plain = _importing("pandas")
    for library, code in CODE.items():
        cold = _importing(library)
        with Sandbox() as sandbox:
            sandbox.run("1 + 1", session="a")
            first = _seconds(lambda code=code: _run(sandbox, code, "a"))
            second = _seconds(lambda code=code: _run(sandbox, code, "b"))
        _tell(f"{library}: first use in an engine", first, MOST_IN_AN_ENGINE, "a plain import", first / cold)
        _tell(f"{library}: first use in another session", second, MOST_IN_A_SESSION, "a plain import", second / cold)
    with Sandbox() as sandbox:
        sandbox.run("1 + 1", session="a")
        for library, code in CODE.items():  # in the order in which they are loaded: each finds what it needs
            taken = _seconds(lambda code=code: _run(sandbox, code, "a"))
            most = MOST_IN_AN_ENGINE if library == "scipy" else MOST_IN_A_BRANCH
            _tell(f"{library}: after those before it", taken, most, "import pandas", taken / plain)
    without, beside = _idle_bytes(uses=False), _idle_bytes(uses=True)
    grown = beside - without
    print(
        f"idle session: {without / 1e6:.2f} MB, beside libraries {beside / 1e6:.2f} MB: {beside / without:.2f}x{_missed(grown, MOST_MEMORY)}"
    )
    start = _seconds(lambda: Sandbox().start().close())
    _tell("start of a sandbox", start, float("inf"), "import pandas", start / plain)
    with Sandbox() as sandbox:
        for pause in (0.0, 0.1):
            times = []
            for _ in range(RUNS):
                time.sleep(pause)
                times.append(_seconds(lambda: _run(sandbox, "1 + 1", "a")))
            median = statistics.median(times)
            _tell(f"1 + 1 every {pause:g} s", median, float("inf"), "import pandas", median / plain)


def _importing(library: str) -> float:
    """Seconds of a plain Python that imports a library: the least of three, since the first reads files from the disk."""
    return min(
        _seconds(lambda: subprocess.run([sys.executable, "-c", f"import {library}"], check=True)) for _ in range(3)
    )


def _run(sandbox: Sandbox, code: str, session: str) -> None:
    outcome = sandbox.run(code, session=session)
    assert outcome.error is None, outcome.error


def _seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _idle_bytes(*, uses: bool) -> int:
    """Memory of an idle session's own, its standby included, in a sandbox in which others use libraries or do not."""
    with Sandbox() as sandbox:
        sandbox.start()
        if uses:
            for code in CODE.values():
                _run(sandbox, code, "other")
        for number in range(SESSIONS):
            for _ in range(3):
                _run(sandbox, "1 + 1", f"idle {number}")
        time.sleep(1)
        assert sandbox._root is not None
        sessions = [pid for pid in _children(sandbox._root.pid) if _is_called(pid, "byref:session")]
        return sum(_private(each) for pid in sessions for each in (pid, *_children(pid))) // max(1, len(sessions))


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _is_called(pid: int, name: str) -> bool:
    return Path(f"/proc/{pid}/comm").read_text().strip() == name


def _private(pid: int) -> int:
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return 1024 * sum(map(int, re.findall(r"Private_\w+:\s+(\d+)", rollup)))


def _tell(what: str, seconds: float, most: float, base: str, ratio: float) -> None:
    print(f"{what}: {seconds * 1e3:,.0f} ms, {ratio:.2f}x {base}{_missed(seconds, most)}", flush=True)


def _missed(found: float, most: float) -> str:
    return "" if found <= most else "  MISSED"


if __name__ == "__main__":
    main()
