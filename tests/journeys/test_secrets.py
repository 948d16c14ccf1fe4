"""Addresses with passwords and keys, in every spelling: nothing prints them."""

from __future__ import annotations

import io
import logging
import os
import sys
import traceback
import warnings
from argparse import Namespace
from pathlib import Path

import pytest
from sqlalchemy import URL

import byref
from byref import db
from byref.cli import doctor, main, opening
from byref.db.connections import make_engine
from byref.stores import ObjectStore
from byref.stores.objects import shown_place

P = "zaq-s3cr3t"
AT = "127.0.0.1:1"
URLS = [
    f" postgresql://u:{P}@{AT}/x",
    f"\t\r\npostgresql://u:{P}@{AT}/x\n",
    f"\u00a0postgresql://u:{P}@{AT}/x",
    f"\x1bpostgresql://u:{P}@{AT}/x",
    f"POSTGRESQL://u:{P}@{AT}/x",
    f"Postgres://u:{P}@{AT}/x",
    f"PostgreSQL+PsycoPG://u:{P}@{AT}/x",
    f"postgresql+psycopg://u:{P}@{AT}/x",
    f"postgresql+psycopg2://u:{P}@{AT}/x",
    f"postgresql+asyncpg://u:{P}@{AT}/x",
    f"postgresql+nope://u:{P}@{AT}/x",
    f"mysql://u:{P}@h/x",
    f"postgresql://u:{P.replace('-', '%2D')}@{AT}/x",
    f"postgresql://u:{P.replace('z', '%7A')}@{AT}/x",
    f"postgresql://u:%zz{P}@{AT}/x",
    f"postgresql://u:é{P}%@{AT}/x",
    f"postgresql://:{P}@{AT}/x",
    f"postgresql://{AT}/x?user=u&password={P}",
    f"postgresql://u@{AT}/x?Password={P}",
    f"postgresql://u@{AT}/x?sslpassword={P}&sslkey={P}&passfile=/tmp/{P}",
    f"postgresql://u:{P}@{AT}/x?connect_timeout={P}",
    f"postgresql://u:{P}@{AT}/x?sslmode={P}",
    f"postgresql://u:{P}@{AT}/x?host={P}",
    f"postgresql://u:{P}@h:port/x",
    f"postgresql://:{P}@h:port/x",
    f"postgresql://u:{P}@h:99999/x",
    f"postgresql://u:{P}@h_%zz:1/x",
    f"postgresql://u:a@{P}@{AT}/x",
    f"postgresql://u:{P}@a@{AT}/x",
    f"postgresql://u:b/{P}@{AT}/x",
    f"postgresql://u:{P}/b@{AT}/x",
    f"postgresql://u/v:{P}@{AT}/x",
    f"postgresql://u:a@b/{P}@{AT}/x",
    f"postgresql://u:b#{P}@{AT}/x",
    f"postgresql://u:b?{P}@{AT}/x",
    f"postgresql://u:{P}?b@{AT}/x",
    f"postgresql://u:[{P}]@{AT}/x",
    f"postgresql://u:{P}@[::1]:1/x",
    f"postgresql://u:{P}@[::1:1/x",
    f"postgresql://u:{P}@{AT},127.0.0.1:2/x",
    f"postgresql://u:{P}@/x?host={AT}&host=127.0.0.1:2",
    f"postgresql://u:{P}@{AT}\0/x",
    f"postgresql://u:{P} b@{AT}/x y",
    f"postgresql:/u:{P}@{AT}/x",
    f"postgresql:u:{P}@{AT}/x",
    f"postgresql//u:{P}@{AT}/x",
    f"//u:{P}@{AT}/x",
    f"://u:{P}@{AT}/x",
    f"u:{P}@{AT}/x",
    f"u:{P}/b@{AT}/x",
    f"host=h user=u password={P} dbname=x",
    f"dbname=x password='{P}'",
    f" PASSWORD = {P}",
    f"service=x sslpassword={P}",
    f"postgresql://host=h user=u password={P}",
    f"jdbc:postgresql://h/x?user=u&password={P}",
    f"'postgresql://u:{P}@{AT}/x'",
    f"db=postgresql://u:{P}@{AT}/x",
    f"sqlite://u:{P}@h/x",
    f"sqlite+pysqlcipher://:{P}@/x.db",
    f"sqlite:///no/folder/x.db?key={P}",
    f"SQLITE:///no/folder/x.db?key={P}",
]
PLACES = [
    f"s3://KEY:{P}@bucket/x",
    f" s3://KEY:{P}@bucket/x",
    f"S3://KEY:{P}@bucket/x",
    f"s3://KEY:a/{P}@bucket",
    f"s3://KEY:a b@{P}@bucket",
    f"s3://KEY:{P}",
    f"s3://bucket/x?secret_access_key={P}",
    f"s3://bucket/x#{P}",
    f"s3://bucket?x=a@{P}",
    f"az://container?sig={P}",
    f"az://account:{P}@container",
    f"gs://{P}:x@bucket",
    f"http://KEY:{P}@host/bucket",
    f"https://host/bucket?X-Amz-Signature={P}",
    f"nope://KEY:{P}@host",
    f"s3:/KEY:{P}@bucket",
    f"KEY:{P}@bucket",
    f"s3://[KEY:{P}]@bucket",
]


def leak(text: str) -> str | None:
    """Where a text has the password."""
    for form in ("s3cr3t", "zaq-", "%7Aaq", "zaq%2D"):
        if (at := text.find(form)) >= 0:
            return text[max(0, at - 200) : at + 20]
    return None


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, a log that is written whole, and a doctor that looks at addresses alone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doctor, "_sandbox", lambda _: [])
    monkeypatch.setattr(doctor, "_packages", list)
    monkeypatch.delenv("BYREF_DB", raising=False)
    monkeypatch.setattr(logging.getLogger("byref"), "level", logging.DEBUG)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    try:
        code = main(words)
    except SystemExit as ended:
        code = int(ended.code or 0)
    captured = capsys.readouterr()
    assert "BYREF_DEBUG" not in captured.err, captured.err
    assert code or "doctor" in words or "--blobs" in words
    return captured.out + captured.err


def test_no_spelling_of_a_database_shows_its_password(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for url in URLS:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"text")))
        for words in (["doctor", "--json"], ["process", "-"]):
            assert leak(said(capsys, "--db", url, *words)) is None, (url, words)
        assert not os.listdir(here), url


def test_no_error_of_the_library_has_a_password(here: Path, caplog: pytest.LogCaptureFixture) -> None:
    for url in URLS:
        use = (byref.Engine, db.check, db.upgrade)[len(url) % 3]  # which make their engine in one way
        with pytest.raises(byref.ByrefError) as caught:
            use(url)
        error = caught.value
        assert leak("".join(traceback.format_exception(error)) + repr(error)) is None, (url, use)
    assert leak(caplog.text) is None
    for host in (f"u:{P}@h", f"h password={P}"):
        with pytest.raises(byref.ConfigurationError) as refused:
            byref.Engine(URL.create("postgresql", host=host))
        assert leak(str(refused.value)) is None


def test_an_engines_repr_has_no_secret_and_its_url_has_it(tmp_path: Path) -> None:
    engine = make_engine(f"postgresql://u:{P}@{AT}/x?sslpassword={P}&sslmode=require&host=h1&host=h2")
    assert leak(repr(engine) + str(engine.url) + repr(engine.url)) is None
    assert "sslmode=require" in repr(engine) and "host=h1&host=h2" in repr(engine)
    assert engine.url.render_as_string(hide_password=False).count(P) == 2
    assert engine.url.query["sslpassword"] == P and engine.url.password == P
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of SQLAlchemy's: the driver does not know `key`
        with byref.Engine(f"sqlite:///{tmp_path / 'x.db'}?key={P}") as byrefs:
            shown = repr(byrefs) + byrefs.url + repr(byrefs.database.engine) + repr(byrefs.database)
            assert leak(shown) is None
            byrefs.session("s").process("kept", tool="t")


def test_a_url_that_is_well_written_is_read_as_it_was(tmp_path: Path) -> None:
    engine = make_engine(" PostgreSQL://user%40server:p%40s%2Fs@host:5/name%40x ")
    assert (engine.url.username, engine.url.password, engine.url.host) == ("user@server", "p@s/s", "host")
    assert engine.url.drivername == "postgresql+psycopg" and engine.url.database == "name@x"
    assert make_engine("postgresql://user@server:pw@host/x").url.username == "user@server"
    assert make_engine(URL.create("postgresql", "u", "p@/w", "host", 5, "a@b")).url.password == "p@/w"
    (tmp_path / "a:b@c").mkdir()
    with byref.Engine(f"sqlite:///{tmp_path}/a:b@c/password=x.db") as odd:
        assert odd.url.startswith("sqlite:///") and odd.url.endswith("x.db")
    assert (tmp_path / "a:b@c" / "password=x.db").exists()


def test_no_place_of_objects_shows_its_key(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for place in PLACES:
        assert leak(shown_place(place)) is None, place
        assert leak(said(capsys, "doctor", "--json", "--blobs", place)) is None, place
        named = opening.command(Namespace(db="byref.db", schema=None, blobs=place), "tenants")
        assert leak(named) is None and "--blobs" in named
        for use in (ObjectStore, lambda given: byref.Engine("sqlite:///:memory:", blobs=given)):
            try:
                use(place)
            except byref.ByrefError as error:
                assert leak("".join(traceback.format_exception(error))) is None, place
    assert shown_place("s3://bucket/a/b?x=1") == "s3://bucket/a/b"
    assert shown_place("/srv/blobs") == "/srv/blobs"
