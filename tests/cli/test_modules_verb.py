"""`byref modules check`: what packages reach; `--modules`: code may import them."""

from __future__ import annotations

import pytest
from cli_kit import Run


def test_the_command_checks_packages(run: Run) -> None:
    ran = run("modules", "check", "humanize", "os")
    assert ran.code == 1
    assert "humanize: allowed" in ran.out and "left out: activate reaches" in ran.out and "os: refused" in ran.out
    report = run("modules", "check", "humanize", "--json").json
    assert report[0]["allowed"] is True and "naturalsize" in report[0]["names"]
    ran = run("run", "1", "--modules", "os")
    assert ran.code == 1 and "the module 'os' cannot be allowed" in ran.err


@pytest.mark.slow
def test_code_may_import_what_the_option_names(run: Run) -> None:
    assert "1.0 kB" in run("run", "import humanize\nhumanize.naturalsize(1000)", "--modules", "humanize, toolz").out
