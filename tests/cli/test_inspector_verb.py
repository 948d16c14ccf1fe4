"""`byref inspect`: a link that opens the pages, once, on this machine alone."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from byref import Engine
from byref.cli import main


@pytest.mark.slow
def test_the_link_that_is_printed_opens_the_pages(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    with Engine(url, jail="language-only") as engine:
        engine.session("chat-1", tenant="acme").process("hello", tool="greet")
    command = [sys.executable, "-m", "byref.cli", "inspect", "--db", url, "--tenant", "acme"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as served:
        assert served.stdout is not None
        link = served.stdout.readline().strip()
        assert link.startswith("http://127.0.0.1:")
        pages = link.rpartition("/")[0]
        with httpx.Client() as browser:
            assert browser.get(f"{pages}/").status_code == 401
            assert browser.get(link).headers["Refresh"] == "0; url=./"
            assert "chat-1" in browser.get(f"{pages}/").text
            assert "hello" in browser.get(f"{pages}/session?session=chat-1").text
            assert browser.get(f"{pages.removesuffix('/inspect')}/v1/sessions").status_code == 404
        with httpx.Client() as other:
            assert other.get(link).status_code == 401
        served.send_signal(signal.SIGTERM)
        said = served.communicate(timeout=30)
        assert (served.returncode, said[0]) == (0, ""), said


def test_there_has_to_be_a_database(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "--db", f"{tmp_path}/none.db"]) == 1
    assert "there is no database" in capsys.readouterr().err
    assert not (tmp_path / "none.db").exists()
