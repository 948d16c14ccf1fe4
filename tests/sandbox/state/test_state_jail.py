"""The same sessions in the real jail: each run is a process of its own."""

from __future__ import annotations

import pytest
from attacks import IN_JAIL, ONLY_THE_JAIL, pickled
from cases import KEPT, REFUSED
from injail import JailedNotebook, encoded
from test_state_cases import plain, reset

from byref_sandbox import Sandbox

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", KEPT)
def test_a_session_is_one_process_behind_the_walls(sandbox: Sandbox, name: str) -> None:
    reset()
    expected = plain(KEPT[name])
    reset()
    notebook = JailedNotebook(sandbox)
    for cell in KEPT[name][:-1]:
        ran = notebook.run(cell)
        assert not ran.error
        assert not ran.lost
    assert not notebook.run("None").lost
    ran = notebook.run(KEPT[name][-1])
    assert ran.error is None
    assert ran.value == expected


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_kept_is_named_behind_the_walls(sandbox: Sandbox, name: str) -> None:
    cell, lost, look, expected = REFUSED[name]
    notebook = JailedNotebook(sandbox)
    assert notebook.run(cell).lost.keys() == lost.keys()
    assert notebook.run(look).value == repr(expected)


@pytest.mark.parametrize("name", IN_JAIL)
def test_what_crashes_or_hangs_is_an_error_of_its_run(breakable: Sandbox, name: str) -> None:
    """Of a stream that was forged after the language had fallen."""
    notebook = JailedNotebook(breakable)
    notebook.run("x = [1]\ny = x")
    before = dict(notebook.stored)
    outcome = notebook.raw(READ_FORGED, stream=encoded(pickled(IN_JAIL[name])))
    assert outcome.error is not None or outcome.value["lost"]
    notebook.stored = before  # what the host had stored
    assert notebook.run("y is x").value == "True"


@pytest.mark.parametrize("name", ONLY_THE_JAIL)
def test_what_only_the_jail_holds_ends_with_its_run(sandbox: Sandbox, name: str) -> None:
    """It breaks the language of the run that reads it: this test says so, and that the next run has a whole one."""
    notebook = JailedNotebook(sandbox)
    outcome = notebook.raw(READ_FORGED + LOOK, stream=encoded(pickled(ONLY_THE_JAIL[name])))
    assert outcome.error is None
    assert outcome.value["is_broken"], "it holds now: move it to those that are refused"
    look = notebook.run("(json.dumps([1]), textwrap.dedent(' a'), hasattr(textwrap.dedent, 'mark'))")
    assert look.value == "('[1]', 'a', False)"
    outside = notebook.raw(READ_FORGED + OUTSIDE, stream=encoded(pickled(ONLY_THE_JAIL[name])))
    assert outside.error is not None or outside.value == ["refused", "refused", "refused"]


READ_FORGED = """
stream
body = base64.b64decode(stream)
part = graphs.Part([graphs.Name('forged', len(body), 1)], [], b'')
contents = graphs.Contents(known.versions, [part], {})
lost = graph.read(contents, lambda _digest: body, lambda _digest: bytearray())
text = repr(space.get('forged'))
result = {'lost': lost}
"""
LOOK = """
import json, textwrap
facade = language._modules.facades
result['is_broken'] = (
    vars(facade['json'])['dumps'] is not json.dumps
    or textwrap.dedent.__defaults__ == (1,)
    or hasattr(textwrap.dedent, 'mark')
)
"""
OUTSIDE = """
import os, socket
def refused(call):
    try:
        call()
    except OSError:
        return 'refused'
    return 'done'
result = [refused(lambda: open('/etc/passwd')), refused(lambda: socket.socket()), refused(lambda: os.kill(os.getppid(), 9))]
"""
