"""Packages that are there where they are installed: `yaml` for plain values in both directions, `natsort`, `texttable`."""

from __future__ import annotations

import io
from typing import Any

import pytest

from byref_sandbox.language.policy import Language

for _name in ("yaml", "natsort", "texttable"):
    pytest.importorskip(_name)


def run(language: Language, code: str) -> Any:
    return language.run(language.compile(f"import yaml, natsort, texttable\n{code}"), {}, io.StringIO()).value


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("yaml.safe_load('{a: 1, b: [x, null]}')", {"a": 1, "b": ["x", None]}),
        ("yaml.load('a: 2', Loader=yaml.FullLoader)", {"a": 2}),
        ("yaml.load('a: 2', yaml.CSafeLoader)", {"a": 2}),
        ("list(yaml.safe_load_all(b'a: 1\\n---\\n2'))", [{"a": 1}, 2]),
        ("yaml.dump({'b': [1, 'x'], 'a': None}, sort_keys=False)", "b:\n- 1\n- x\na: null\n"),
        ("with open('f.yml', 'w') as file:\n    yaml.safe_dump([1], file)\nyaml.full_load(open('f.yml'))", [1]),
        ("yaml.safe_dump_all([1, 2])", "1\n--- 2\n...\n"),
        ("try:\n    yaml.safe_load('[')\nexcept yaml.YAMLError as error:\n    line = error.problem_mark.line\nline", 0),
        ("natsort.natsorted(['a10', 'a2', 'A1'], alg=natsort.ns.IGNORECASE)", ["A1", "a2", "a10"]),
        ("sorted(['a10', 'a2'], key=natsort.natsort_keygen())", ["a2", "a10"]),
        (
            "pd.DataFrame({'t': ['a10', 'a2']}).sort_values('t', key=natsort.natsort_keygen())['t'].tolist()",
            ["a2", "a10"],
        ),
        ("t = texttable.Texttable()\nt.add_rows([['a', 'b'], [1, 2.5]])\nt.draw().count('+')", 9),
        ("pd.Series(['{a: 1}']).apply(yaml.safe_load).tolist()", [{"a": 1}]),
    ],
)
def test_plain_values_are_read_and_written(language: Language, code: str, value: object) -> None:
    assert run(language, code) == value


@pytest.mark.parametrize(
    "code",
    [
        "yaml.load('!!python/object/apply:os.getcwd []', Loader=yaml.Loader)",
        "yaml.safe_load('!!python/name:os.system')",
        "yaml.safe_load('!!python/module:os')",
        "yaml.load('!!python/object/new:os.system [ls]', yaml.FullLoader)",
        "yaml.load('a', Loader=yaml.UnsafeLoader)",
        "yaml.unsafe_load('!!python/name:os.system')",
        "yaml.load('a', Loader=str)",
        "class L(yaml.SafeLoader): pass",
        "yaml.SafeLoader('a').get_single_data()",
        "yaml.SafeLoader.add_constructor('!a', print)",
        "yaml.add_constructor('!a', print)",
        "yaml.SafeLoader.yaml_constructors",
        "yaml.add_representer(str, print)",
        "yaml.YAMLObject",
        "yaml.loader.UnsafeLoader",
        "yaml.cyaml",
        "yaml.sys",
        "yaml.io",
        "yaml.dump(print)",
        "yaml.dump({'a': object()}, Dumper=yaml.Dumper)",
        "yaml.dump(1, Dumper=str)",
        "yaml.dump(1, open)",
        "yaml.dump(1, tags={})",
        "natsort.natsort_keygen().func.__globals__",
        "natsort.natsorted(['a'], key='__class__')",
        "natsort.os_sorted(['a'])",
        "natsort.utils",
        "natsort.natsort.platform",
        "natsort.ns.LOCALE.__class__.__init__.__globals__",
        "texttable.sys",
        "texttable.Texttable().draw.__func__.__globals__",
        "texttable.Texttable()._fmt_auto",
        "texttable.Texttable.draw = print",
        "class T(texttable.Texttable): pass",
        "yaml.safe_load.__globals__",
        "yaml.YAMLError.__init__.__globals__",
        "class R:\n    def read(self, size=-1):\n        return 'a'\nyaml.safe_load(R())",
        "class D(dict):\n    def items(self):\n        return 1 / 0\nyaml.dump(D())",
        "try:\n    yaml.safe_load('[')\nexcept yaml.YAMLError as error:\n    found = error.__traceback__\nfound.tb_frame",
    ],
)
def test_nothing_else_is(language: Language, code: str) -> None:
    with pytest.raises(Exception) as raised:
        run(language, code)
    assert not isinstance(raised.value, ZeroDivisionError)


def test_code_changes_nothing_for_later_runs(language: Language) -> None:
    run(language, "try:\n    yaml.SafeDumper.ignore_aliases = None\nexcept Exception:\n    pass")
    assert run(language, "shared = [1]\nyaml.dump([shared, shared])") == "- &id001\n  - 1\n- *id001\n"
