"""Files that code writes are kept by name, out of the run and into later ones, and are nowhere on the machine."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from byref_sandbox import Data, File, Limits, Sandbox, wire
from byref_sandbox.outcome import MAX_FILE_NAME_CHARS, MAX_FILES
from byref_sandbox.values.files import files_of

ORDERS = [{"id": number, "region": "ns"[number % 2]} for number in range(3)]
CSV = "id,region\n0,n\n1,s\n2,n\n"


def written(sandbox: Sandbox, code: str, **given: bytes) -> dict[str, bytes]:
    files = {name.replace("_", "."): data for name, data in given.items()}
    outcome = sandbox.run(code, {"orders": ORDERS}, files=files)
    assert outcome.error is None, outcome.error
    return {file.name: file.data for file in outcome.files}


@pytest.mark.parametrize(
    ("code", "name", "data"),
    [
        ("df(orders).to_csv('out.csv', index=False)", "out.csv", CSV),
        ("df(orders).to_csv(path_or_buf='out.csv', index=False)", "out.csv", CSV),
        ("df(orders)['id'].to_csv('a/b/id.csv', index=False, header=False)", "a/b/id.csv", "0\n1\n2\n"),
        ("df(orders).head(1).to_json('o.json', orient='records')", "o.json", '[{"id":0,"region":"n"}]'),
        ("df(orders).head(1).to_markdown('o.md', index=False)", "o.md", "|   id | region   |\n|-----:|:---------|\n|    0 | n        |"),
        ("df(orders).head(1).to_string(buf='o.txt', index=False)", "o.txt", " id region\n  0      n"),
        ("with open('t.txt', 'w') as f:\n    f.write('a\\n')\n    print('b', file=f)", "t.txt", "a\nb\n"),
        ("f = open('t.txt', 'w')\nf.write('left open')", "t.txt", "left open"),
        ("open('t.txt', 'w').write('é')", "t.txt", "é"),
        ("import json\njson.dump(orders[0], open('o.json', 'w'))", "o.json", '{"id": 0, "region": "n"}'),
        ("import csv\nwith open('o.csv', 'w', newline='') as f:\n    csv.writer(f).writerow([1, 'x'])", "o.csv", "1,x\r\n"),
        ("from pathlib import Path\nPath('r/n.txt').write_text('hi')", "r/n.txt", "hi"),
        ("import pathlib\nwith (pathlib.Path('r') / 'n.txt').open('w') as f: f.write('hi')", "r/n.txt", "hi"),
        ("np.savetxt('n.csv', np.eye(2), fmt='%d', delimiter=',')", "n.csv", "1,0\n0,1\n"),
        ("open('/tmp/../x/./y.txt', 'w').write('1')", "tmp/x/y.txt", "1"),
        ("open('w.txt', 'w', newline='\\r\\n').write('a\\n')", "w.txt", "a\r\n"),
        ("open('t.txt', 'x').write('new')", "t.txt", "new"),
        ("df(orders).to_csv('m.csv', index=False)\ndf(orders).head(1).to_csv('m.csv', index=False, header=False, mode='a')", "m.csv", CSV + "0,n\n"),
        ("from contextlib import redirect_stdout\nwith open('log.txt', 'w') as f, redirect_stdout(f):\n    print('in it')", "log.txt", "in it\n"),
    ],
)  # fmt: skip
def test_what_code_writes_comes_out_by_name(sandbox: Sandbox, code: str, name: str, data: str) -> None:
    assert written(sandbox, code) == {name: data.encode()}


def test_bytes_and_packed_tables_come_out_as_they_are(sandbox: Sandbox) -> None:
    assert written(sandbox, "open('b.bin', 'wb').write(bytes(range(256)))") == {"b.bin": bytes(range(256))}
    packed = written(sandbox, "df(orders).to_csv('o.csv.gz', index=False)")["o.csv.gz"]
    assert gzip.decompress(packed).decode() == CSV
    assert sandbox.run("pd.read_csv('o.csv.gz').shape", files={"o.csv.gz": packed}).value == [3, 2]


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("pd.read_csv('out.csv').shape", [3, 2]),
        ("pd.read_csv(filepath_or_buffer='out.csv', usecols=['id']).id.sum()", 3),
        ("pd.read_csv(open('out.csv')).shape", [3, 2]),
        ("open('out.csv').read()", CSV),
        ("[line.strip() for line in open('/out.csv')][0]", "id,region"),
        ("open('out.csv', 'rb').read(2).decode()", "id"),
        ("from pathlib import Path\nPath('out.csv').read_text()", CSV),
        ("from pathlib import Path\n[Path('out.csv').exists(), Path('no.csv').exists(), [str(p) for p in Path('.').glob('*.csv')]]", [True, False, ["out.csv"]]),
        ("np.loadtxt('out.csv', delimiter=',', skiprows=1, usecols=0).tolist()", [0, 1, 2]),
        ("import csv\nlist(csv.DictReader(open('out.csv')))[1]['region']", "s"),
        ("name = 'out'\nlen(pd.read_csv(f'{name}.csv'))", 3),
        ("with open('out.csv', 'r+') as f:\n    f.read()\n    f.write('x')\nopen('out.csv').read()[-1]", "x"),
        ("try:\n    open('no.csv')\nexcept FileNotFoundError:\n    found = False\nfound", False),
    ],
)  # fmt: skip
def test_later_code_reads_what_earlier_code_wrote(sandbox: Sandbox, code: str, value: object) -> None:
    data = Data("of the file", lambda: CSV.encode())
    for content in (CSV.encode(), data):
        for session in (None, "files"):
            outcome = sandbox.run(code, files={"out.csv": content}, session=session)
            assert (outcome.error, outcome.value) == (None, value)


def test_only_what_changed_comes_out(sandbox: Sandbox) -> None:
    assert written(sandbox, "open('a.txt').read()", a_txt=b"1") == {}
    assert written(sandbox, "open('a.txt', 'w').write('1')", a_txt=b"1") == {}
    assert written(sandbox, "open('a.txt', 'a').write('2')", a_txt=b"1") == {"a.txt": b"12"}
    assert written(sandbox, "from pathlib import Path\nPath('t').write_text('1')\nPath('t').unlink()") == {}


def test_files_are_kept_when_the_code_fails_and_open_handles_are_told(sandbox: Sandbox) -> None:
    outcome = sandbox.run("f = open('a.txt', 'w')\nf.write('1')\n1 / 0")
    assert outcome.error is not None and outcome.error.kind == "ZeroDivisionError"
    assert outcome.files == (File("a.txt", b"1"),)
    assert outcome.unkept == {"f": "an open file: what is in it is kept under its name"}
    assert not (closed := sandbox.run("with open('a.txt', 'w') as f:\n    f.write('1')")).unkept and not closed.named
    failing = sandbox.run("pd.DataFrame({'a': [1]}).to_csv('o.csv', float_format=3, nosuch=1)")
    assert failing.error is not None and failing.files == ()


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        ("open('nosuch.csv')", "NotAllowed", "there is no file 'nosuch.csv'; there are: given.csv"),
        ("pd.read_csv('nosuch.csv')", "NotAllowed", "there is no file 'nosuch.csv'; there are: given.csv"),
        ("open('/etc/passwd')", "NotAllowed", "there is no file 'etc/passwd'; there are: given.csv"),
        ("pd.read_csv('https://example.org/given.csv')", "NotAllowed", "pd.read_csv() of an address or text is not available"),
        ("open('given.csv').write('x')", "UnsupportedOperation", "not writable"),
        ("open('a', 'w').read()", "UnsupportedOperation", "not readable"),
        ("open('given.csv', 'x')", "FileExistsError", ""),
        ("open('a', 'q')", "ValueError", "invalid mode: 'q'"),
        ("open('a', 'rw')", "ValueError", "invalid mode"),
        ("open('a', 'wb', encoding='utf-8')", "ValueError", "binary mode"),
        ("open('a', 'w', encoding='ascii').write('é')", "UnicodeEncodeError", ""),
        ("open(0)", "NotAllowed", "open() of a descriptor is not available"),
        ("open('a', 'w', opener=print)", "NotAllowed", "open() of a descriptor is not available"),
        ("open('', 'w')", "NotAllowed", "'' is no name for a file here"),
        ("open('..', 'w')", "NotAllowed", "'..' is no name for a file here"),
        ("open('a\\nb', 'w')", "NotAllowed", "is no name for a file here"),
        ("open('a\\0b', 'w')", "NotAllowed", "is no name for a file here"),
        ("open('x' * 201, 'w')", "NotAllowed", "is no name for a file here"),
        ("open('x' * 10**6, 'w')", "NotAllowed", "is no name for a file here"),
        ("open('a', 'w').name = 'b'", "NotAllowed", "cannot be set"),
        ("open('a', 'w')._files", "NotAllowed", "'_files'"),
        ("df([{'a': 1}]).to_excel('a.xlsx')", "NotAllowed", ".to_excel() is not available"),
        ("df([{'a': 1}]).to_csv(3)", "NotAllowed", ".to_csv() cannot write to a int"),
    ],
)  # fmt: skip
def test_what_is_no_file_is_refused_by_name(sandbox: Sandbox, code: str, kind: str, message: str) -> None:
    error = sandbox.run(code, files={"given.csv": b"a\n1\n"}).error
    assert error is not None and error.kind == kind
    assert message in error.message


def test_a_path_is_followed_from_the_root(sandbox: Sandbox) -> None:
    code = "for path in ('out/../a.csv', '/b/./c.csv', '../../d.csv', 'e/f/../../g/h.csv'): open(path, 'w').write('1')\nopen('../a.csv').read()"
    assert set(written(sandbox, code)) == {"a.csv", "b/c.csv", "d.csv", "g/h.csv"}


def test_a_text_subclass_is_the_name_that_it_was_checked_as(sandbox: Sandbox) -> None:
    code = (
        "class Two(str):\n    def __str__(self): return '../../etc/passwd'\n    def split(self, *a): return ['x']\n"
        "open(Two('a.txt'), 'w').write('1')"
    )
    assert written(sandbox, code) == {"a.txt": b"1"}


def test_count_and_size_are_bounded_and_told(sandbox: Sandbox) -> None:
    many = sandbox.run("for number in range(30): open(f'{number}.txt', 'w').write('x')")
    assert len(many.files) == MAX_FILES
    assert many.files_lost["20.txt"] == f"a run writes at most {MAX_FILES} files" and len(many.files_lost) == 10
    big = sandbox.run(
        "open('big.txt', 'w').write('x' * 2_000_000)\nopen('small.txt', 'w').write('y')\n7",
        limits=Limits(result_bytes=1_000_000),
    )
    assert big.value == 7 and big.files == (File("small.txt", b"y"),)
    assert big.files_lost["big.txt"].startswith("too big: 2,000,000 bytes")
    stopped = sandbox.run("open('a.txt', 'w').write('x')\nwhile True: pass", limits=Limits(cpu_seconds=0.2))
    assert stopped.error is not None and stopped.files == ()


def test_nothing_is_written_on_the_machine(sandbox: Sandbox, tmp_path: Path) -> None:
    for path in (tmp_path / "a.txt", Path("/tmp/byref_test_of_files.txt")):
        assert sandbox.run(f"open({str(path)!r}, 'w').write('x')").error is None
        assert not path.exists()


def test_the_host_takes_no_more_of_a_forged_reply_than_files(sandbox: Sandbox) -> None:
    names = [
        "ok.txt",
        "ok.txt",
        "../x",
        "/x",
        "a//b",
        "a\\b",
        "a\nb",
        "",
        ".",
        "x" * (MAX_FILE_NAME_CHARS + 1),
        "d/é.csv",
    ]
    found, lost = files_of([wire.File(name, b"1") for name in names])
    assert [file.name for file in found] == ["ok.txt", "d/é.csv"] and lost == {}
    found, lost = files_of([wire.File(f"{number}", b"") for number in range(5_000)])
    assert len(found) == MAX_FILES
    _, lost = files_of([wire.File(f"{number}", b"", "r" * 10_000) for number in range(5_000)])
    assert len(lost) == 100 and max(map(len, lost.values())) == 300


@pytest.mark.parametrize("name", ["../x", "", "/x", "a\nb", "x" * 300])
def test_a_host_that_names_a_file_wrongly_is_told(sandbox: Sandbox, name: str) -> None:
    with pytest.raises(ValueError, match="expected a relative path"):
        sandbox.run("open('x')", files={name: b""})
    bad: Any = {"x": "text"}
    with pytest.raises(ValueError, match="and bytes"):
        sandbox.run("open('x')", files=bad)
