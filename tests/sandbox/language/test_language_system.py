"""`os`, `glob`, `shutil`, `tempfile`, archives and databases: over the files of a run they do what they do on a disk."""

from __future__ import annotations

import contextlib
import gc
import io
import subprocess
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from byref_sandbox.language.policy import Language

DISK = """
import os, glob, shutil, tempfile, zipfile, gzip, bz2, lzma, io, codecs, csv, json
from pathlib import Path
os.makedirs('top/sub/deep'); os.mkdir('empty')
for name in ('top/a.csv', 'top/b.txt', 'top/sub/c.csv', 'top/sub/deep/d.csv', 'top/.hidden', 'e.csv'):
    with open(name, 'w') as file: file.write(name)
"""
SAME = [
    "[os.path.exists(p) for p in ('top', 'top/a.csv', 'top/', 'nothing', 'empty', 'top/a.csv/x')]",
    "[(os.path.isfile(p), os.path.isdir(p), os.path.getsize(p) if os.path.isfile(p) else 0) for p in ('top', 'top/a.csv', 'no')]",
    "[sorted(os.listdir(p)) for p in ('top', 'empty', 'top/sub')]",
    "[(d, sorted(f), sorted(n)) for d, f, n in sorted(os.walk('top'))]",
    "[d for d, f, n in os.walk('top', topdown=False)]",
    "sorted((e.name, e.path, e.is_file(), e.is_dir()) for e in os.scandir('top'))",
    *(f"sorted(glob.glob({pattern!r}, recursive={recursive}))" for recursive in (True, False) for pattern in (
        "*", "*.csv", "top/*", "top/*.csv", "top/**", "**", "**/", "**/*.csv", "top/**/", "top/**/*.csv", "top/*/", "./*.csv", "top/.*",
        "top/[ab].*", "top/?.csv", "top/sub", "top/sub/", "nothing", "no*/x", "top/*/*", "*/*/*.csv",
    )),
    "sorted(glob.glob('*.csv', root_dir='top')), glob.escape('a[1].csv'), sorted(glob.glob('top/*', include_hidden=True))",
    "[sorted(map(str, Path('top').glob(p))) for p in ('*', '*.csv', '**/*.csv', 'sub/*')], sorted(map(str, Path('top').rglob('*.csv')))",
    "sorted(map(str, Path('top').iterdir())), Path('top/a.csv').stat().st_size, Path('top').is_dir(), Path('x').exists()",
    "str(shutil.copy('top/a.csv', 'empty')), str(shutil.copy2('top/a.csv', 'new.csv')), sorted(os.listdir('empty'))",
    "str(shutil.move('top/sub', 'empty')), sorted(os.listdir('empty/sub')), os.path.exists('top/sub')",
    "str(shutil.move('e.csv', 'f.csv')), os.path.exists('e.csv'), open('f.csv').read()",
    "str(shutil.copytree('top', 'copy', ignore=shutil.ignore_patterns('*.txt'))), sorted(os.listdir('copy'))",
    "(f := open('x', 'w')).write('x'), os.stat('x').st_mtime == os.stat('x').st_mtime, f.close(), os.remove('x')",
    "shutil.rmtree('top'), os.path.exists('top'), sorted(os.listdir('.'))",
    "os.rename('top/a.csv', 'top/z.csv'), os.remove('top/b.txt'), sorted(os.listdir('top')), os.rmdir('empty'), os.path.exists('empty')",
    "os.path.relpath('top/a.csv', 'top/sub'), os.path.relpath('top/a.csv'), os.path.normpath('top/../a'), os.path.split('top/a.csv')",
    "os.path.splitext('a.tar.gz'), os.path.join('a', '/b', 'c'), os.path.basename('a/b/'), os.path.commonpath(['a/b', 'a/c']), os.sep, os.linesep",
    "[os.environ.get('NO_SUCH_VARIABLE'), os.getenv('NO_SUCH_VARIABLE', 'x')]",
    "(lambda d: [os.path.isdir(d.name), d.cleanup(), os.path.isdir(d.name)])(tempfile.TemporaryDirectory())",
    "[(f.write(b'x'), f.seek(0), f.read(), f.close()) for f in (tempfile.TemporaryFile(), tempfile.SpooledTemporaryFile())]",
    "(lambda f: [f.write('x'), f.flush(), open(f.name).read(), f.close(), os.path.exists(f.name)])(tempfile.NamedTemporaryFile('w'))",
    "(lambda pair: [os.fdopen(pair[0], 'w').write('12') > 1, os.path.getsize(pair[1]) in (0, 2)])(tempfile.mkstemp('.txt'))",
    "[m.open('p', 'wt').write('hello') and m.open('p', 'rt').read() for m in ()]",
    "[(lambda f: (f.write(b'hello'), f.close(), m.open('p').read(), m.decompress(open('p', 'rb').read())))(m.open('p', 'wb')) for m in (gzip, bz2, lzma)]",
    "(lambda b: ((lambda g: (g.write(b'xyz'), g.close()))(gzip.GzipFile(fileobj=b, mode='wb')), gzip.GzipFile(fileobj=io.BytesIO(b.getvalue())).read()))(io.BytesIO())",
    "str(shutil.make_archive('packed', 'zip', 'top')).endswith('packed.zip'), sorted(n for n in zipfile.ZipFile('packed.zip').namelist() if n[-1] != '/')",
    "(lambda z: [z.write('top/a.csv'), z.write('e.csv', 'in/e.csv'), z.writestr('t', 'é'), z.close()])(zipfile.ZipFile('z.zip', 'w')), [(i.filename, i.file_size) for i in zipfile.ZipFile('z.zip').infolist()], zipfile.ZipFile('z.zip').read('t').decode(), zipfile.is_zipfile('z.zip'), zipfile.is_zipfile('e.csv')",
    "(lambda z: [z.writestr('x/y.csv', 'a,b'), z.close()])(zipfile.ZipFile('z.zip', 'w')), zipfile.ZipFile('z.zip').extractall('out'), open('out/x/y.csv').read(), list(csv.reader(io.TextIOWrapper(zipfile.ZipFile('z.zip').open('x/y.csv'), 'utf-8')))",
    "(lambda z: z.writestr('x', 'y'))(zipfile.ZipFile('left.zip', 'w')), zipfile.ZipFile('left.zip').read('x')",
    "codecs.open('u.txt', 'w', encoding='utf-16').close(), len(codecs.open('u.txt', encoding='utf-16').read())",
]  # fmt: skip
ERRORS = [
    "os.listdir('nothing')", "os.listdir('e.csv')", "os.mkdir('top')", "os.makedirs('top')", "os.rmdir('top')", "os.remove('nothing')",
    "open('nothing/x')", "open('top')", "os.rename('nothing', 'x')", "os.path.getsize('nothing')", "shutil.copy('nothing', 'x')",
    "shutil.copy('e.csv', 'e.csv')", "shutil.move('nothing', 'x')", "shutil.copytree('top', 'empty')", "zipfile.ZipFile('e.csv')",
    "zipfile.ZipFile('nothing.zip')", "gzip.open('e.csv').read()", "shutil.rmtree('nothing')", "os.stat('nothing')", "os.close(12345)",
    "zipfile.ZipFile('q.zip', 'w').getinfo('x')", "Path('top').mkdir()", "Path('nothing').unlink()", "Path('top').rmdir()",
    "lzma.open('e.csv').read()", "os.makedirs('e.csv', exist_ok=True)", "list(Path('nothing').iterdir())",
]  # fmt: skip


pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module", autouse=True)
def small_heap() -> Iterator[None]:
    """What there is by now is no garbage: each collection below would look at all of it."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def _natively(code: str, place: Path) -> object:
    place.mkdir()
    space: dict[str, object] = {}
    with contextlib.chdir(place), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(DISK, space)
            return eval(code, space)
        finally:
            space.clear()
            gc.collect()


def test_it_is_as_on_a_disk(language: Language, tmp_path: Path) -> None:
    different = {}
    for number, code in enumerate(SAME):
        here = language.run(language.compile(f"{DISK}\n{code}"), {}, io.StringIO()).value
        there = _natively(code, tmp_path / str(number))
        if here != there:
            different[code] = (here, there)
    assert different == {}


def test_errors_are_of_the_same_kind(language: Language, tmp_path: Path) -> None:
    for number, code in enumerate(ERRORS):
        with pytest.raises(Exception) as there:
            _natively(code, tmp_path / str(number))
        with pytest.raises(there.type):
            language.run(language.compile(f"{DISK}\n{code}"), {}, io.StringIO())


@pytest.mark.slow
def test_zones_are_there_where_the_host_has_listed_them_before(
    script: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    """Lists of pytz are made once in a process, and read each zone's file when they are made."""
    source = (
        "import io, pytz; list(pytz.all_timezones)\n"
        "from byref_sandbox.language.policy import Language\n"
        "language = Language()\n"
        "print(language.run(language.compile(\"import pytz; str(pytz.timezone('Europe/Oslo'))\"), {}, io.StringIO()).value)"
    )
    assert script(source).stdout.strip() == "Europe/Oslo"
