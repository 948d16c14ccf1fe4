"""The unit and the proxy of docs/deployment.md, read by systemd and run by nginx, where the machine has these."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from poolers import free_port, wait_for
from serving import BYREF, serving

import byref
from byref import db
from byref.service import auth

PAGE = (Path(__file__).parents[2] / "docs" / "deployment.md").read_text()
SBIN = os.environ.get("PATH", "") + ":/usr/sbin"
AROUND = """\
daemon off;
pid {folder}/pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{page}
}}
"""
PATIENCE = 20.0


def block(language: str) -> str:
    [found] = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


def program(name: str, package: str) -> str:
    found = shutil.which(name, path=SBIN)
    if found is None:
        pytest.skip(f"there is no {name} on this machine (Debian's package: {package})")
    return found


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    verify = program("systemd-analyze", "systemd")
    unit = tmp_path / "byref@.service"
    # The page's paths are those of a machine on which byref is installed as it says.
    unit.write_text(block("ini").replace("/opt/byref/bin/byref", BYREF).replace("User=byref", f"User={os.geteuid()}"))
    said = subprocess.run(
        [verify, "verify", f"{tmp_path}/byref@8350.service"], capture_output=True, text=True, timeout=60
    )
    assert (said.returncode, [line for line in said.stderr.splitlines() if "byref" in line]) == (0, []), said.stderr


@contextmanager
def proxied(folder: Path, upstream: str) -> Iterator[str]:
    """The address of the page's proxy in front of a server, without TLS."""
    nginx = program("nginx", "nginx-light")
    port = free_port()
    page = block("nginx").replace("listen 443 ssl;", f"listen 127.0.0.1:{port};")
    page = page.replace("server 127.0.0.1:8350; server 127.0.0.1:8351;", f"server {upstream.removeprefix('http://')};")
    settings = folder / "nginx.conf"
    settings.write_text(AROUND.format(folder=folder, page=page))
    user = pwd.getpwuid(os.geteuid()).pw_name
    with subprocess.Popen([nginx, "-p", str(folder), "-c", str(settings), "-g", f"user {user};"]) as process:
        try:
            wait_for(port, process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()


def test_all_passes_the_proxy(tmp_path: Path) -> None:
    program("nginx", "nginx-light")
    url = f"sqlite:///{tmp_path}/chat.db"
    db.upgrade(url)
    with byref.Engine(url, jail="language-only") as engine:
        token = auth.create(engine.database, tenant="acme", name="t", rights=auth.RIGHTS)
    rows = b"id,total\n" + b"".join(b"%d,%d\n" % (number, number % 7) for number in range(400_000))
    head = {"Authorization": f"Bearer {token}"}
    with serving(url) as (server, address), proxied(tmp_path, address) as base:
        with httpx.Client(base_url=f"{base}/v1/sessions", headers=head, timeout=30) as client:
            assert client.put("/c%2F1", json={"context_window": 200_000}).status_code == 200
            uploaded = client.post(
                "/c%2F1/outputs?tool=export&call_id=t1",
                headers={"Content-Type": "text/csv"},
                content=iter([rows[:9], rows[9:]]),
            )
            assert uploaded.status_code == 200, uploaded.text
            place = f"/c%2F1/artifacts/{client.get('/c%2F1/variables/export').json()['artifact_id']}/content"
            assert client.get(place).content == rows
            part = client.get(place, headers={"Range": "bytes=9-12"})
            assert (part.status_code, part.content) == (206, rows[9:13])
            with client.stream("GET", "/c%2F1/events") as events:
                lines = events.iter_lines()
                assert next(line for line in lines if line.startswith("data:"))
                assert client.post("/c%2F1/process", json={"tool": "small", "output": "hello"}).status_code == 200
                assert next(line for line in lines if "hello" in line)  # it comes while the stream is open
        entering = httpx.post(f"{base}/inspect/enter", data={"token": token}, headers={"Origin": base})
        assert entering.status_code == 200, entering.text
        assert (
            httpx.post(f"{base}/inspect/enter", data={"token": token}, headers={"Origin": "http://other"}).status_code
            == 403
        )
        server.terminate()
        assert server.wait(PATIENCE) == 0
