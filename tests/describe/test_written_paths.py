"""Paths are written in one way, whatever the keys are."""

from __future__ import annotations

import pytest

from byref.describe.paths import ITEM, KEY, KEY_CHARS, PATH_CHARS, Path, written, written_key

PATHS: dict[str, Path] = {
    "$": (),
    "$[]": (ITEM,),
    "$[][].id": (ITEM, ITEM, "id"),
    "*": (KEY,),
    "*.*[]": (KEY, KEY, ITEM),
    "data.*.stats": ("data", KEY, "stats"),
    "repos.*.data.pulls[].user.login": ("repos", KEY, "data", "pulls", ITEM, "user", "login"),
    'paths."/users/{id}".get': ("paths", "/users/{id}", "get"),
    '"*"."[]".""."a.b"."a\\"b"': ("*", "[]", "", "a.b", 'a"b'),
    "größe.名前": ("größe", "名前"),
    r'"\\ud800x"': ("\ud800x",),
    '"$"': ("$",),
}


@pytest.mark.parametrize("text", PATHS)
def test_a_path_is_written(text: str) -> None:
    assert written(PATHS[text]) == text


def test_long_keys_and_paths_are_cut() -> None:
    assert written_key("k" * KEY_CHARS) == "k" * KEY_CHARS
    assert written_key("k" * (KEY_CHARS + 1)) == f'"{"k" * (KEY_CHARS // 2)}…"'
    assert written(tuple("abcdef" for _ in range(1_000))).startswith("….abcdef.")
    assert written((ITEM,) * 1_000) == "…" + "[]" * (PATH_CHARS // 2)
    for path in [("k" * 100_000,) * 50, ("\x00" * 1_000,) * 3, (ITEM, "\ud800" * 500, KEY)]:
        assert len(written(path)) <= PATH_CHARS + 6 * KEY_CHARS
