"""What programs print in columns: with the real ones where they are installed, and as they print it elsewhere."""

from __future__ import annotations

import contextlib
import io
import random
import shutil
import subprocess

import duckdb
import pandas as pd
import pytest
import rich.box
import rich.console
import rich.table
import tabulate

from byref_sandbox.tabletext import NotATable, Recognised, Table, reading, recognise
from byref_sandbox.tabletext.lines import display_width, lines_of


def tables_of(text: str) -> tuple[Table, ...]:
    """The tables of a text, of which every byte is in a part, and every letter of each line of records in its cells."""
    found = recognise(text)
    assert isinstance(found, Recognised), f"{found}\n{text[:1000]}"
    data = text.encode()
    parts = [part for table in found.tables for part in table.parts]
    assert [part.start for part in parts] == [0, *(part.end for part in parts[:-1])]
    assert parts[-1].end == len(data)
    for table in found.tables:
        lines = [
            line.text
            for part in table.parts
            if part.kind == "records"
            for line in lines_of(data, part.start, stop=part.end)
        ]
        records = list(table.records())
        assert len(records) == len(lines) == table.rows
        for record, line in zip(records, lines, strict=True):
            cells = record[table.names[0] == "directory" :]
            assert "".join("".join(cell or "" for cell in cells).split()) == "".join(line.split()), line
    again = reading.from_text(reading.to_text(reading.reading_of(found)))
    assert [len(reading.records(table, data)) for table in again.tables] == [table.rows for table in found.tables]
    return found.tables


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("ls -l /usr/bin", "mode links owner group size modified name"),
        ("ls -l --color=always /etc", "mode links owner group size modified name"),
        ("ls -lis /etc", "inode blocks mode links owner group size modified name"),
        ("ls -lR --time-style=long-iso /etc", "directory mode links owner group size modified name"),
        ("find /etc/apt -ls", "inode blocks mode links owner group size modified name"),
        ("df -P /", "Filesystem|1024-blocks|Used|Available|Capacity|Mounted on"),
        ("df -hT", "Filesystem|Type|Size|Used|Avail|Use%|Mounted on"),
        ("free -w", "column_1 total used free shared buffers cache available"),
        ("ps -eo pid,lstart,cmd", "PID STARTED CMD"),
        ("ps aux", "USER PID %CPU %MEM VSZ RSS TTY STAT START TIME COMMAND"),
        ("ps -ef --forest", "UID PID PPID C STIME TTY TIME CMD"),
        ("top -b -n 1", "PID USER PR NI VIRT RES SHR S %CPU %MEM TIME+ COMMAND"),
        ("dpkg -l", "||/ Name Version Architecture Description"),
        ("lslocks", "COMMAND PID TYPE SIZE MODE M START END PATH"),
        ("lslogins", "UID USER PROC PWD-LOCK PWD-DENY LAST-LOGIN GECOS"),
    ],
)
def test_what_installed_programs_print(command: str, names: str) -> None:
    if shutil.which(command.split()[0]) is None:
        pytest.skip("not installed")
    printed = subprocess.run(command.split(), capture_output=True, text=True, errors="replace")
    if printed.stdout.count("\n") < 3:
        pytest.skip("it has nothing to say here")
    [table, *_] = tables_of(printed.stdout)
    assert table.names == tuple(names.split("|" if "|" in names[3:] and not names.startswith("||") else " "))


DPKG = """\
Desired=Unknown/Install/Remove/Purge/Hold
| Status=Not/Inst/Conf-files/Unpacked/halF-conf/Half-inst/trig-aWait/Trig-pend
|/ Err?=(none)/Reinst-required (Status,Err: uppercase=bad)
||/ Name           Version      Architecture Description
+++-==============-============-============-=================================
ii  bash           5.2.15-2+b8  amd64        GNU Bourne Again SHell
rc  linux-image    6.1.0-9      amd64        Linux – signed
"""
SS = """\
State  Recv-Q Send-Q Local Address:Port  Peer Address:PortProcess
LISTEN 0      4096       127.0.0.1:8399       0.0.0.0:*    users:(("python",pid=17,fd=6))
LISTEN 0      128          0.0.0.0:22         0.0.0.0:*
"""
LSBLK = """\
NAME        MAJ:MIN RM  SIZE RO TYPE MOUNTPOINTS
sda           8:0    0  100G  0 disk
├─sda1        8:1    0  512M  0 part /boot/efi
└─sda2        8:2    0 99.5G  0 part
  └─vg-root 253:0    0 99.5G  0 lvm  /
"""
LSBLK_F = """\
NAME  FSTYPE FSVER LABEL UUID FSAVAIL FSUSE% MOUNTPOINTS
zram0
vda                             76.1G    10% /
"""
NETSTAT = """\
Active Internet connections (servers and established)
Proto Recv-Q Send-Q Local Address           Foreign Address         State
tcp        0      0 0.0.0.0:22              0.0.0.0:*               LISTEN
udp        0      0 127.0.0.1:323           0.0.0.0:*
Active UNIX domain sockets (servers and established)
Proto RefCnt Flags       Type       State         I-Node   Path
unix  2      [ ACC ]     STREAM     LISTENING     20518    /run/dbus/socket
unix  3      [ ]         STREAM     CONNECTED     21432
"""
SYSTEMCTL = """\
UNIT FILE                         STATE    PRESET
dev-hugepages.mount               static   -
proc-sys-fs-binfmt_misc.mount     disabled disabled

2 unit files listed.
"""
VMSTAT_M = """\
Cache                       Num  Total   Size  Pages
AF_VSOCK                     36     36   1280     12
Acpi-State                  102    102     80     51
Cache                       Num  Total   Size  Pages
dentry                        3     42    192     21
"""
AWS = """\
      Name                    Value             Type    Location
      ----                    -----             ----    --------
   profile                <not set>             None    None
    region                eu-west-1      config-file    ~/.aws/config
"""
LSCPU = "CPU NODE SOCKET CORE L1d:L1i:L2:L3 ONLINE\n  0    0      0    0 0:0:0:0          yes\n  1    0      0    1 1:1:1:0          yes\n"
IOSTAT = """\
Linux 6.1.0 (host) \t01/02/26 \t_x86_64_\t(2 CPU)

avg-cpu:  %user   %nice %system %iowait  %steal   %idle
          45.45    3.14   18.94    0.13    0.20   32.14

Device             tps    kB_read/s    kB_read
vda             185.74      2182.51    1402369
sda               0.00         0.00          0
"""
LS = """\
/etc/a:
total 8
-rw-r--r-- 1 root root   12 Jan  2 10:00 a file
lrwxrwxrwx 1 root root    4 Jun 24  2025 link -> a file

/etc/a/b c:
total 0
crw-rw-rw- 1 root root 1, 3 Jan  2 10:00 null
"""
TAR = "drwxr-xr-x root/root         0 2025-06-24 14:37 etc/\n-rw-r--r-- root/adm        155 2026-05-20 16:49 etc/a b\n"


@pytest.mark.parametrize(
    ("text", "names", "first", "last"),
    [
        (DPKG, ["||/", "Name", "Version", "Architecture", "Description"], ["ii", "bash", "5.2.15-2+b8", "amd64", "GNU Bourne Again SHell"], ["rc", "linux-image", "6.1.0-9", "amd64", "Linux – signed"]),
        (SS, ["State", "Recv-Q", "Send-Q", "Local Address:Port", "Peer Address:PortProcess"], ["LISTEN", "0", "4096", "127.0.0.1:8399", '0.0.0.0:*    users:(("python",pid=17,fd=6))'], ["LISTEN", "0", "128", "0.0.0.0:22", "0.0.0.0:*"]),
        (LSBLK, ["NAME", "MAJ:MIN", "RM", "SIZE", "RO", "TYPE", "MOUNTPOINTS"], ["sda", "8:0", "0", "100G", "0", "disk", ""], ["└─vg-root", "253:0", "0", "99.5G", "0", "lvm", "/"]),
        (LSBLK_F, ["NAME", "FSTYPE", "FSVER", "LABEL", "UUID", "FSAVAIL", "FSUSE%", "MOUNTPOINTS"], ["zram0", *[""] * 7], ["vda", "", "", "", "", "76.1G", "10%", "/"]),
        (SYSTEMCTL, ["UNIT FILE", "STATE", "PRESET"], ["dev-hugepages.mount", "static", "-"], ["proc-sys-fs-binfmt_misc.mount", "disabled", "disabled"]),
        (VMSTAT_M, ["Cache", "Num", "Total", "Size", "Pages"], ["AF_VSOCK", "36", "36", "1280", "12"], ["dentry", "3", "42", "192", "21"]),
        (AWS, ["Name", "Value", "Type", "Location"], ["profile", "<not set>", "None", "None"], ["region", "eu-west-1", "config-file", "~/.aws/config"]),
        (LSCPU, ["CPU", "NODE", "SOCKET", "CORE", "L1d:L1i:L2:L3", "ONLINE"], ["0", "0", "0", "0", "0:0:0:0", "yes"], ["1", "0", "0", "1", "1:1:1:0", "yes"]),
        (LS, ["directory", "mode", "links", "owner", "group", "size", "modified", "name"], ["/etc/a", "-rw-r--r--", "1", "root", "root", "12", "Jan  2 10:00", "a file"], ["/etc/a/b c", "crw-rw-rw-", "1", "root", "root", "1, 3", "Jan  2 10:00", "null"]),
    ],
)  # fmt: skip
def test_what_programs_print(text: str, names: list[str], first: list[str], last: list[str]) -> None:
    [table] = tables_of(text)
    records = [list(record) for record in table.records()]
    assert (list(table.names), records[0], records[-1]) == (names, first, last)
    coloured = "\n".join(f"\x1b[1;32m{line[:4]}\x1b[0m{line[4:]}\x1b[K" for line in text.split("\n"))
    [plain] = recognise(coloured).tables  # type: ignore[union-attr]
    assert [list(record) for record in plain.records()] == records


def test_owners_of_an_archive() -> None:
    found = recognise(TAR)
    assert isinstance(found, Recognised)
    [table] = found.tables
    assert [type_.name for type_ in table.types] == ["text", "text", "text", "integer", "datetime", "text"]
    assert [*table.records()][1] == ("-rw-r--r--", "root", "adm", "155", "2026-05-20 16:49", "etc/a b")


def test_tables_below_one_another() -> None:
    internet, unix = tables_of(NETSTAT)
    assert internet.names[3:] == ("Local Address", "Foreign Address", "State")
    assert [*internet.records()][1] == ("udp", "0", "0", "127.0.0.1:323", "0.0.0.0:*", "")
    assert unix.names == ("Proto", "RefCnt", "Flags", "Type", "State", "I-Node", "Path")
    assert [*unix.records()][1] == ("unix", "3", "[ ]", "STREAM", "CONNECTED", "21432", "")
    processors, devices = tables_of(IOSTAT)
    assert [*processors.records()] == [("", "45.45", "3.14", "18.94", "0.13", "0.20", "32.14")]
    assert devices.rows == 2


@pytest.mark.parametrize(
    "text",
    [
        # The first row names no columns: sizes, digests and paths are in each row.
        "3.9K\t/etc/a\n12K\t/etc/b\n1.5M\t/usr\n",
        "100755 725a8e8245407866d637c5f7d007761ccd64eeca 0\t.ci/run\n"
        + "".join(f"100644 {n:040x} 0\tb{n}\n" for n in range(9)),
        "/usr/a\tone\n/usr/b\ttwo\n/usr/c\tthree\n/etc/d\tfour\n",
        "".join(f"file\t{name}\tof {name}\n" for name in "abcdefg"),
    ],
)
def test_a_first_row_that_is_like_the_others_is_one_of_them(text: str) -> None:
    [table] = recognise(text).tables  # type: ignore[union-attr]
    assert (table.header, table.rows) == (None, text.count("\n"))


@pytest.mark.parametrize(
    "text",
    [
        # Indented lists, lists in code, code with brackets over several lines.
        "\tlinux-vdso.so.1 (0x00007fc3e11af000)\n\tlibc.so.6 => /lib/libc.so.6 (0x1)\n\t/lib64/ld.so (0x2)\n\tlibz (0x3)\n",
        "    'break',\n    'case',\n" * 9,
        "hexagon_add,   // llvm.add\nhexagon_sub,   // llvm.sub\n" * 9,
        "    (0, 0, 95),\n    (135, 0, 0),\n    (215, 95, 0),\n" * 9,
        # A line of three words in capitals above lines that do not fit, and sections of prose below a table.
        "NAME READY STATUS\nall of these lines are prose\nwith other numbers of words 12\n" * 3,
        "A  B  C\n1  2  3\n4  5  6\n\n" + "Here follows prose, a paragraph of it.\n\n" * 30,
        "-rw-r--r-- 1 root root 12 Jan  2 10:00 a\n-rw-r--r-- 1 root root 12 Jan  2 10:00 b\nls: no such file\n",
    ],
)
def test_what_only_looks_like_a_table_stays_text(text: str) -> None:
    assert isinstance(recognise(text), NotATable)


HEADER = ["id", "name", "value", "day", "note"]
RECORDS = [
    [str(n), f"name {n}", f"{n}.5", f"2026-01-{n + 1:02}", "" if n % 5 == 0 else "x|y" if n == 7 else "to do"]
    for n in range(20)
]
NOT_READ = {
    "asciidoc", "html", "unsafehtml", "latex", "latex_raw", "latex_booktabs", "latex_longtable", "mediawiki", "moinmoin",
    "jira", "youtrack", "textile", "tsv",
}  # fmt: skip
"""Markup whose cells have no columns of their own, and bars between cells that have one; of `tsv` it takes empty cells at the end."""


@pytest.mark.parametrize("format", [format for format in tabulate.tabulate_formats if format not in NOT_READ])
def test_all_that_tabulate_draws(format: str) -> None:
    text = tabulate.tabulate(RECORDS, HEADER, tablefmt=format, disable_numparse=True)
    [table] = recognise(text).tables  # type: ignore[union-attr]
    assert (list(table.names), [list(record) for record in table.records()]) == (HEADER, RECORDS)


@pytest.mark.parametrize("name", ["jira", "youtrack"])
def test_names_of_wikis_are_above_their_columns(name: str) -> None:
    text = tabulate.tabulate([row[:4] for row in RECORDS], HEADER[:4], tablefmt=name, disable_numparse=True)
    [table] = recognise(text).tables  # type: ignore[union-attr]
    assert [name.strip() for name in table.names[1:5]] == HEADER[:4]
    assert [cell.strip() for cell in [*table.records()][3][1:5]] == RECORDS[3][:4]


BOXES = "ASCII ASCII2 SQUARE SQUARE_DOUBLE_HEAD MINIMAL MINIMAL_HEAVY_HEAD SIMPLE SIMPLE_HEAD SIMPLE_HEAVY HORIZONTALS ROUNDED HEAVY HEAVY_EDGE HEAVY_HEAD DOUBLE DOUBLE_EDGE MARKDOWN"


@pytest.mark.parametrize("name", BOXES.split())
def test_all_that_rich_draws(name: str) -> None:
    written = io.StringIO()
    table = rich.table.Table(*HEADER[:4], box=getattr(rich.box, name), title="Report")
    for row in RECORDS:
        table.add_row(*row[:4])
    rich.console.Console(file=written, width=100, force_terminal=True).print(table)
    [read] = recognise(written.getvalue()).tables  # type: ignore[union-attr]
    assert (list(read.names), [list(record) for record in read.records()]) == (HEADER[:4], [r[:4] for r in RECORDS])


def test_what_pandas_and_polars_print() -> None:
    frame = pd.DataFrame(
        {"id": range(30), "city": ["Oslo", "New York", "Ürümqi"] * 10, "v": [n / 4 for n in range(30)]}
    )
    for text, first in (
        (frame.to_string(), "column_1"),
        (frame.to_string(index=False), None),
        (f"{frame!r}", "column_1"),
    ):
        [table] = recognise(text).tables  # type: ignore[union-attr]
        assert list(table.names) == [*([first] if first else []), "id", "city", "v"]
        assert [*table.records()][1][-3:] == ("1", "New York", "0.25")
    [described] = recognise(frame.describe().to_string()).tables  # type: ignore[union-attr]
    assert [row[0] for row in described.records()] == ["count", "mean", "std", "min", "25%", "50%", "75%", "max"]
    polars = "shape: (2, 2)\n┌─────┬──────┐\n│ id  ┆ name │\n│ --- ┆ ---  │\n│ i64 ┆ str  │\n╞═════╪══════╡\n│ 1   ┆ a    │\n│ 2   ┆ b    │\n└─────┴──────┘\n"
    [table] = recognise(polars).tables  # type: ignore[union-attr]
    assert (table.names, [*table.records()]) == (("id", "name"), [("1", "a"), ("2", "b")])


def test_rows_that_are_not_shown_are_none() -> None:
    """DuckDB and polars write dots in each cell where they leave rows out; the footer says how many there are."""
    rows = "".join(f"│ {n:4} │ name {n} │\n" for n in (1, 2))
    dots = "│    · │   ·    │\n" * 3
    duckdb = f"┌──────┬────────┐\n│  id  │  name  │\n│ int32│varchar │\n├──────┼────────┤\n{rows}{dots}{rows}├──────┴────────┤\n│ 5000 rows     │\n└───────────────┘\n"
    [table] = recognise(duckdb).tables  # type: ignore[union-attr]
    assert (table.names, table.rows, [kind.name for kind in table.types]) == (("id", "name"), 4, ["integer", "text"])
    [footer] = [part for part in table.parts if part.kind == "footer"]
    assert duckdb.encode()[footer.start : footer.end].decode() == "│ 5000 rows     │\n"
    wide = "┌────┬───┬────┐\n│ a  │ … │ z  │\n│int8│ … │int8│\n├────┼───┼────┤\n│  1 │ … │  2 │\n│  3 │ … │  4 │\n└────┴───┴────┘\n"
    [table] = recognise(wide).tables  # type: ignore[union-attr]
    assert (table.names, list(table.records())) == (("a", "…", "z"), [("1", "…", "2"), ("3", "…", "4")])
    polars = "shape: (9, 2)\n┌─────┬──────┐\n│ id  ┆ name │\n│ --- ┆ ---  │\n│ i64 ┆ str  │\n╞═════╪══════╡\n│ 1   ┆ a    │\n│ …   ┆ …    │\n│ 2   ┆ b    │\n└─────┴──────┘\n"
    [table] = recognise(polars).tables  # type: ignore[union-attr]
    assert (table.types[0].name, list(table.records())) == ("integer", [("1", "a"), ("2", "b")])


def test_rows_of_dots_are_data_where_no_program_writes_them_for_others() -> None:
    mysql = "+---+---+\n| a | b |\n+---+---+\n| 1 | 2 |\n| · | · |\n| … | … |\n+---+---+\n"
    psql = " a | b \n---+---\n 1 | 2\n · | ·\n … | …\n(3 rows)\n"
    for text in (mysql, psql):
        [table] = recognise(text).tables  # type: ignore[union-attr]
        assert [*table.records()] == [("1", "2"), ("·", "·"), ("…", "…")]
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):  # columns that are left out keep their dots
        columns = ", ".join(f"range + {n} AS c{n}" for n in range(40))
        duckdb.sql(f"SELECT {columns} FROM range(100)").show(max_width=80, max_rows=10)
    [table] = recognise(shown.getvalue()).tables  # type: ignore[union-attr]
    assert (table.rows, table.types[0].name) == (10, "integer")


def test_no_row_is_below_the_end_of_a_table() -> None:
    box = "┌───┬───┐\n│ a │ b │\n├───┼───┤\n│ 1 │ 2 │\n├───┴───┤\n"
    [table] = recognise(f"{box}│ 1 row │\n└───────┘\n").tables  # type: ignore[union-attr]
    assert (table.rows, [part.kind for part in table.parts][-2:]) == (1, ["footer", "rule"])
    psql = " a | b \n---+---\n 1 | 2\n"
    for text, line in (
        (f"{box}│ 3 │ 4 │\n└───┴───┘\n", 6),
        (f"{box}│ x     │\n│ y     │\n│ z     │\n└───────┘\n", 8),
        (f"{psql}NOTICE: x\n 3 | 4\n(2 rows)\n", 5),
        (f"{psql}\n 3 | 4\n(2 rows)\n", 5),
        (f"{psql}(1 row)\n\n 3 | 4\n\n{psql}(1 row)\n", 6),
        ("| 1 | 2 |\n| a | b |\n|---|---|\n| 3 | 4 |\n", 1),
        (" a | b+\n   | c \n---+---\n 1 | 2\n 3 | 4\n", 1),
    ):
        found = recognise(text)
        assert isinstance(found, NotATable) and found.line == line, text


def test_tables_without_a_line_between_them() -> None:
    box = "┌───┬───┐\n│ a │ b │\n├───┼───┤\n│ 1 │ 2 │\n└───┴───┘\n"
    mysql = "+---+---+\n| a | b |\n+---+---+\n| 1 | 2 |\n+---+---+\n"
    for text in (box, mysql):
        tables = recognise(text + text.replace("a", "c").replace("1", "3")).tables  # type: ignore[union-attr]
        assert [(table.names, [*table.records()]) for table in tables] == [
            (("a", "b"), [("1", "2")]),
            (("c", "b"), [("3", "2")]),
        ]
    [one] = recognise(mysql + "| 3 | 4 |\n+---+---+\n").tables  # type: ignore[union-attr]
    assert one.rows == 2


def test_the_index_of_a_frame_has_its_names() -> None:
    frame = pd.DataFrame(
        {"order id": range(20), "city": ["Oslo", "Rome"] * 10, "day": range(40, 60), "paid": [1.5, 2.5] * 10}
    )
    [table] = tables_of(frame.set_index("order id").to_string())
    assert (table.names, table.rows) == (("order id", "city", "day", "paid"), 20)
    assert next(iter(table.records())) == ("0", "Oslo", "40", "1.5")
    [table] = tables_of(frame.rename(columns={"order id": "order"}).set_index(["day", "city"]).to_string())
    assert (table.names, table.rows) == (("day", "city", "order", "paid"), 20)
    two_words = recognise(frame.set_index(["day", "city"]).to_string())  # where the names are as close as words are
    assert isinstance(two_words, NotATable) or "order id" in two_words.tables[0].names
    grouped = frame.groupby(["city", "day"]).paid.agg(
        ["sum", "count"]
    )  # a city is printed once, above the others' blanks
    assert isinstance(recognise(grouped.to_string()), NotATable)


def test_a_frame_without_its_index_has_its_cells_below_the_ends_of_its_names() -> None:
    rows = [("plant", 4.17, "ctrl a"), ("Anna de la Cruz", None, "trt"), ("y", 5.58, "ctrl"), ("pl", 6.11, "o")] * 3
    frame = pd.DataFrame(rows, columns=["rownames", "weight", "group"])
    [table] = tables_of(f"What it says:\n\n{frame.to_string(index=False)}\n")
    assert table.names == ("rownames", "weight", "group")
    assert list(table.records())[:2] == [("plant", "4.17", "ctrl a"), ("Anna de la Cruz", "NaN", "trt")]
    two_words = frame.rename(columns={"rownames": "of whom"})
    assert tables_of(two_words.to_string(index=False))[0].names == ("of whom", "weight", "group")
    one_word = frame.assign(group="ä", rownames="x").rename(columns={"rownames": "a"})
    assert tables_of(one_word.to_string(index=False))[0].names == ("a", "weight", "group")
    assert tables_of(frame[["rownames", "weight"]].to_string(index=False))[0].names == ("rownames", "weight")
    for other in (
        frame[["rownames", "weight"]][:8],
        frame.assign(weight="a few"),  # nothing here tells it from words
        frame[:2],  # and these ends may be chance
    ):
        assert not isinstance(recognise(other.to_string(index=False)), Recognised)
    prose = "so it goes here on\nas I have had to do\n" * 20
    assert not isinstance(recognise(prose), Recognised)


def test_a_frame_that_is_too_wide_is_several_tables() -> None:
    frame = pd.DataFrame({f"measure_{n}": range(n, n + 15) for n in range(14)})
    tables = tables_of(frame.to_string(line_width=60))
    assert [name for table in tables for name in table.names if name.startswith("measure")] == list(frame)
    assert not any("\\" in table.names for table in tables)


def test_what_stands_between_tabs_may_have_blanks() -> None:
    """Padded or not: it is not cut into words."""
    rows = [f"rel{n}\tdefault  \t{n}       \t2026-01-02 10:00:0{n} UTC\tdeployed\n" for n in range(9)]
    [table] = recognise("NAME\tNAMESPACE\tREVISION\tUPDATED            \tSTATUS  \n" + "".join(rows)).tables  # type: ignore[union-attr]
    assert [cell.strip() for cell in [*table.records()][1][3:]] == ["2026-01-02 10:00:01 UTC", "deployed"]
    [table] = recognise("Iface\tMask\t\tMTU\tIRTT\n" + "eth0\tFF\t5\t7\n" * 3).tables  # type: ignore[union-attr]
    assert table.names == ("Iface", "Mask", "MTU", "IRTT")


def test_a_rule_without_gaps_and_a_total() -> None:
    rows = "".join(
        f"src/mod_{n:02}.py      {n + 10:5}   {n % 5:4}   {90 + n % 10:3}%   {'' if n % 3 else '10-12, 40'}\n"
        for n in range(9)
    )
    rule = "-" * 50 + "\n"
    text = (
        f"Name               Stmts   Miss  Cover   Missing\n{rule}{rows}{rule}TOTAL                126     18    93%\n"
    )
    [table] = recognise(text).tables  # type: ignore[union-attr]
    assert (table.rows, table.names[-1], [*table.records()][3]) == (
        9,
        "Missing",
        ("src/mod_03.py", "13", "3", "93%", "10-12, 40"),
    )
    assert [part.kind for part in table.parts] == ["header", "rule", "records", "footer"]


def test_no_cell_is_lost_behind_the_last_bar() -> None:
    for text in (
        "┌───┬───┐\n│ a │ b │\n├───┼───┤\n│ 1 │ 2 │\n│ 3 │ 4 │ 5 │\n└───┴───┘\n",
        "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 | 5 |\n",
    ):
        assert isinstance(recognise(text), NotATable)


def drawn(draw: random.Random, gap: int) -> tuple[list[str], list[list[str]], str]:
    """Columns as a program aligns them: their names, their cells, and the text."""
    width, rows = draw.randint(3, 8), draw.randint(2, 30)
    is_loud = draw.random() < 0.6
    names = draw.sample(["name", "id", "status", "age", "size", "node", "ready", "owner", "path", "cpu"], width)
    names = [name.upper() if is_loud else name.capitalize() for name in names]
    if gap > 1:
        names = [f"{name} {'GATES' if is_loud else 'name'}" if draw.random() < 0.3 else name for name in names]
    cells = {
        "number": ["0", "1", "456", "99999", "12.5"],
        "word": ["web-1", "db", "<none>", "x.y:80"],
        "size": ["4.0K", "12M", "0"],
        "words": ["1 (2d ago)", "About an hour", "Up 3 days", "one"],
        "tree": ["├─sda1", "└─sda2", "sda", "│ └─vg-root"],
        "wide": ["日本語", "ü", "한국", "abc"],
        "some": ["", "", "x", "yes"],
    }
    kinds = ["number", *draw.choices(list(cells), k=width - 1)]
    draw.shuffle(kinds)
    body = [[draw.choice(cells[kind]) for kind in kinds] for _ in range(rows)]
    for column, kind in enumerate(kinds):
        if kind == "some" and not any(row[column] for row in body):
            body[0][column] = "x"
    sides = [draw.choice("<>") if kind in ("number", "size") else "<" for kind in kinds]
    widths = [max(display_width(row[column]) for row in [names, *body]) for column in range(width)]

    def line(row: list[str]) -> str:
        made = []
        for cell, side, size in zip(row, sides, widths, strict=True):
            blanks = " " * (size - display_width(cell))
            made.append(cell + blanks if side == "<" else blanks + cell)
        return (" " * gap).join(made).rstrip()

    return names, body, "".join(f"{line(row)}\n" for row in [names, *body])


def test_cells_are_in_their_columns_or_it_stays_text() -> None:
    """Names and cells with blanks, empty cells, any alignment, trees and wide characters: nothing is shifted, and little stays text."""
    stayed = 0
    for seed in range(300):
        draw = random.Random(seed)
        names, body, text = drawn(draw, draw.choice([1, 2, 3]))
        found = recognise(text)
        if isinstance(found, NotATable):
            stayed += 1
            continue
        [table] = found.tables
        assert (list(table.names), [list(record) for record in table.records()]) == (names, body), (
            f"seed {seed}\n{text}"
        )
    assert stayed < 15


def test_commas_that_may_be_of_thousands_are_no_decimals() -> None:
    for cells, type_ in (
        (["1,234", "2,500", "999"], "text"),
        (["1,234", "2,5", "999"], "number"),
        (["0,234", "1,234", "5"], "number"),
        (["1234,567", "1,234"], "number"),
        (["1,234,567", "1,234"], "text"),
    ):
        text = "id;v\n" + "".join(f"{n};{cells[n % len(cells)]}\n" for n in range(12))
        [table] = recognise(text).tables  # type: ignore[union-attr]
        assert table.types[1].name == type_, cells


def test_a_record_with_dashes_for_values_is_no_line_of_names() -> None:
    rows = "".join(
        f"{name:<10} unix  -       -       n       {n}       -       {name}\n" for n, name in enumerate("abcdefgh")
    )
    text = "smtp       inet  n       -       y       -       -       smtpd\n" + rows
    assert isinstance(recognise(text), NotATable)
    assert isinstance(
        recognise("NAME       KIND  PRIVATE CHROOT  WAKE    LIMIT   MORE    COMMAND\n" + text), Recognised
    )


MYSQL_RULE = "+----+------+\n"


def mysql(rows: int, first: int = 10) -> str:
    """A result of MySQL's."""
    body = "".join(f"| {n} | n{n:<3} |\n" for n in range(first, first + rows))
    return f"{MYSQL_RULE}| id | name |\n{MYSQL_RULE}{body}{MYSQL_RULE}{rows} rows in set (0.00 sec)\n\n"


@pytest.mark.parametrize("rows", [1, 2, 5, 20, 27, 30, 40])
def test_what_is_below_a_table_does_not_join_its_rows(rows: int) -> None:
    found = recognise(mysql(rows) + mysql(20, 50))
    assert isinstance(found, Recognised)
    assert [table.rows for table in found.tables] == [rows, 20]
    for below in ("\nSummary\n=======\nAll is well.\n", "--------------\ninsert into t\n--------------\n\nQuery OK\n"):
        [table] = recognise(mysql(rows) + below).tables  # type: ignore[union-attr]
        assert [*table.records()] == [(str(n), f"n{n}") for n in range(10, 10 + rows)]


def test_rules_between_some_rows_do_not_join_the_others() -> None:
    """A total, and sections: rows of a grid have a rule between most of them."""
    body = [f"| {n} | n{n:<3} |\n" for n in range(10, 70)]
    head = f"{MYSQL_RULE}| id | name |\n{MYSQL_RULE}"
    total = head + "".join(body[:20]) + MYSQL_RULE + "| 99 | all  |\n" + MYSQL_RULE
    sections = head + "".join(row + MYSQL_RULE * (n % 5 == 4) for n, row in enumerate(body))
    for text, rows in ((total, 21), (sections, 60)):
        [table] = recognise(text).tables  # type: ignore[union-attr]
        assert (table.rows, table.types[0].name, table.notes) == (rows, "integer", ())


def wrapped(rows: int, *, is_grid: bool) -> str:
    text = "the health check of the service did not answer within some seconds"
    return tabulate.tabulate(
        [[n, f"{text} {n}", n * 3] for n in range(rows)],
        ["id", "event", "retries"],
        tablefmt="grid" if is_grid else "psql",
        maxcolwidths=30,
    )


def test_rows_that_may_be_the_rest_of_others_are_told() -> None:
    draw = random.Random(1)
    [table] = recognise(wrapped(20, is_grid=True)).tables  # type: ignore[union-attr]
    assert (table.rows, table.notes) == (20, ())
    [table] = recognise(wrapped(20, is_grid=False)).tables  # type: ignore[union-attr]
    assert (table.rows, table.notes) == (60, ("40 of its rows may be the rest of those above them, wrapped",))
    sparse = tabulate.tabulate(
        [[f"E{n:02}", draw.choice(["Oslo", "New York"]), draw.choice(["", "x", "to do"])] for n in range(40)],
        ["id", "city", "note"],
        tablefmt="psql",
    )
    [table] = recognise(sparse).tables  # type: ignore[union-attr]
    assert (table.rows, table.notes) == (40, ())
    rule = "+---+---+\n"
    both = f"{rule}| a | b |\n{rule}| c | d |\n{rule}| e | f |\n| g | h |\n{rule}| i | j |\n{rule}"
    [table] = recognise(both).tables  # type: ignore[union-attr]
    assert (table.rows, table.notes) == (3, ("lines of the rows above them, without a rule between: 1",))


def test_a_cell_of_psql_goes_on_where_its_sign_is_in_the_margin() -> None:
    rows = [("1", "C++"), ("2", "Go"), ("3", "a+"), ("4", "+")]
    text = " id | lang \n----+------\n" + "".join(f"  {n} | {lang}\n" for n, lang in rows) + "(4 rows)\n"
    [table] = recognise(text).tables  # type: ignore[union-attr]
    assert [*table.records()] == rows
    text = " id | lang \n----+------\n  1 | C++ +\n    | Go\n  2 | C+++\n(2 rows)\n"
    [table] = recognise(text).tables  # type: ignore[union-attr]
    assert [*table.records()] == [("1", "C++\nGo"), ("2", "C+++")]
    other = "|a  |b  |\n".join(("+---+---+\n",) * 2) + "|C++|1  |\n|Go |2  |\n+---+---+\n"
    assert isinstance(recognise(other), NotATable)  # what goes on has no other cells


def test_rows_of_dashes_are_rows_of_psql() -> None:
    rows = [("-", "-"), ("1", "-"), ("-", "2"), ("--", "---")]
    text = " phone | fax \n-------+-----\n" + "".join(f" {a:<5} | {b}\n" for a, b in rows) + "(4 rows)\n"
    [table] = recognise(text).tables  # type: ignore[union-attr]
    assert [*table.records()] == rows


PSQL_RECORDS = "-[ RECORD 1 ]\nid   | 1\nlang | C++\n-[ RECORD 2 ]\nid   | 2\nlang | a+ +\n     | |b|\n\n"
MYSQL_RECORDS = f"""\
{"*" * 27} 1. row {"*" * 27}
  id: 1
body: Dear Ann,

Regards: the shop
{"*" * 27} 2. row {"*" * 27}
  id: 2
body: at 10:30
2 rows in set (0.00 sec)

"""


def test_records_below_one_another() -> None:
    for text in (PSQL_RECORDS, PSQL_RECORDS.replace("-[", "─[").replace(" | ", " │ ").replace("+\n ", "↵\n ")):
        [table] = recognise(text).tables  # type: ignore[union-attr]
        assert [*table.records()] == [("1", "C++"), ("2", "a+\n|b|")]
    framed = "+-[ RECORD 1 ]-+\n| id   | 1   |\n| lang | C++ |\n| or   | a|  |\n+------+-----+\n\n"
    [table] = recognise(framed).tables  # type: ignore[union-attr]
    assert [*table.records()] == [("1", "C++", "a|")]
    [table] = recognise(MYSQL_RECORDS).tables  # type: ignore[union-attr]
    assert [*table.records()] == [("1", "Dear Ann,\n\nRegards: the shop"), ("2", "at 10:30")]
    assert table.notes == ("lines of the values above them, which begin no member: 2",)
    [table] = recognise("-[ RECORD 1 ]\na | 1\na | 2\n").tables  # type: ignore[union-attr]
    assert (table.names, [*table.records()]) == (("a", "a_2"), [("1", "2")])


def test_each_result_of_records_is_a_table() -> None:
    other = "-[ RECORD 1 ]-\nother_name | 5\n\n"
    for text, rows in (
        (PSQL_RECORDS + other, [2, 1]),
        (other + PSQL_RECORDS * 2, [1, 2, 2]),
        (MYSQL_RECORDS * 2, [2, 2]),
        (MYSQL_RECORDS.replace("2 rows in set (0.00 sec)\n\n", "") * 2, [2, 2]),
    ):
        found = recognise(text)
        assert isinstance(found, Recognised) and [table.rows for table in found.tables] == rows
        read = reading.from_text(reading.to_text(reading.reading_of(found)))
        assert [len(reading.records(table, text.encode())) for table in read.tables] == rows
        parts = [part for table in found.tables for part in table.parts]
        assert [part.start for part in parts] == [0, *(part.end for part in parts[:-1])]
        assert parts[-1].end == len(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"2026-11-28 INFO importer [ RECORD {n} ] stored, {n} bytes\n" for n in range(1, 40)),
        "Use \\G in mysql: it prints\n    *** 1. row ***\nabove each row.\n" + "This page has many words.\n" * 20,
        # Below the end, other members than in the first record, a bar in another place, a line without a bar.
        PSQL_RECORDS + "-[ RECORD 3 ]\nid   | 3\nlang | x\n",
        PSQL_RECORDS + "id   | 3\n",
        PSQL_RECORDS + "and so on\n" * 50,
        MYSQL_RECORDS.replace("body: at", "text: at"),
        MYSQL_RECORDS.replace("  id", "a:id").replace("body", " bod"),
        PSQL_RECORDS.replace("     | |b|", "     : |b|"),
        PSQL_RECORDS.replace("a+ +", "a"),
    ],
)
def test_what_only_looks_like_records_stays_text(text: str) -> None:
    assert not isinstance(recognise(text), Recognised)


def test_names_come_again_at_the_heads_of_pages_alone() -> None:
    names = "NAME     STATE   AGE\n"
    rows = [f"web-{n:<4} up      {n}\n" for n in range(10, 25)]
    pages = "".join(names * (n % 6 == 0) + row for n, row in enumerate(rows))
    [table] = tables_of(pages)
    assert (table.rows, table.notes) == (15, ("the names come again 2 times",))
    polls = "".join("web-1   DOWN   timeout\n" if n % 5 < 3 else f"web-1   UP     {n}.5\n" for n in range(100))
    assert isinstance(recognise(polls), NotATable)
    years = "Country      2021   2022\nNarnia        n/a    n/a\n" + "".join(
        f"Land{n:<9} {n}.1   {n}.2\n" for n in range(10, 40)
    )
    assert isinstance(recognise(years), NotATable)


POLARS = """\
shape: (3, 3)
| id  | name | v   |
| --- | ---  | --- |
| i64 | str  | f64 |
|-----|------|-----|
| 0   | a    | 0.5 |
| …   | …    | …   |
| 2   | c    | 2.0 |
"""
POLARS_ROWS = """\
shape: (3, 3)
 id  | name | v
 --- | ---  | ---
 i64 | str  | f64
==================
 0   | a    | 0.5
-----+------+-----
 ... | ...  | ...
-----+------+-----
 2   | c    | 2.0
"""
POLARS_WIDE = """\
shape: (3, 9)
┌─────┬───┬─────┐
│ id  ┆ … ┆ v   │
│ --- ┆   ┆ --- │
│ i64 ┆   ┆ f64 │
╞═════╪═══╪═════╡
│ 0   ┆ … ┆ 0.5 │
│ 2   ┆ … ┆ 2.0 │
└─────┴───┴─────┘
"""


@pytest.mark.parametrize("text", [POLARS, POLARS_ROWS, POLARS_WIDE])
def test_types_are_no_names_and_no_records(text: str) -> None:
    [table] = recognise(text).tables  # type: ignore[union-attr]
    assert [(table.names[at], table.types[at].name) for at in (0, 2)] == [("id", "integer"), ("v", "number")]
    assert [row[0] for row in table.records()] == ["0", "2"]


def test_types_of_duckdb_are_no_names() -> None:
    for type_ in ("NULL", "'a'::ENUM('a', 'b')", "'101'::BIT", "[1, 2]", "MAP([1], [2])"):
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            duckdb.sql(f"SELECT i, {type_} AS n FROM range(5) t(i)").show()
        [table] = recognise(shown.getvalue()).tables  # type: ignore[union-attr]
        assert table.names == ("i", "n"), shown.getvalue()


def test_simple_tables_below_one_another() -> None:
    simple = tabulate.tabulate([[n, f"n{n}"] for n in range(20)], ["id", "name"], tablefmt="rst")
    found = recognise(f"One\n\n{simple}\n\nTwo\n\n{simple}\n")
    assert isinstance(found, Recognised) and [table.rows for table in found.tables] == [20, 20]
    parts = [part for table in found.tables for part in table.parts]
    assert [part.start for part in parts] == [0, *(part.end for part in parts[:-1])]
    rows = simple.split("\n")
    assert isinstance(recognise("\n".join([*rows[:9], "", *rows[9:]])), NotATable)
    psql = "id lang\n-- ----\n 1 C++\n 2 Go\n(2 rows)\n\n"  # border 0
    [table] = recognise(psql).tables  # type: ignore[union-attr]
    assert [*table.records()] == [("1", "C++"), ("2", "Go")]


def test_the_first_of_keys_is_no_name() -> None:
    status = "Name:\tsh\nUmask:\t0022\nState:\tR (running)\n" + "".join(f"K{n}:\t{n} kB\n" for n in range(20))
    [table] = recognise(status).tables  # type: ignore[union-attr]
    assert (table.header, next(table.records())) == (None, ("Name:", "sh"))
