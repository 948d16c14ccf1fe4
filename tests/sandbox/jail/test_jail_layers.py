"""Each layer of the jail is removed: without a mandatory one nothing runs, and the error names it; any other is reported as
missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from byref_sandbox import Layer, SandboxUnavailable, probe
from byref_sandbox.host import process
from byref_sandbox.jail.jail import Jail, require

Script = Callable[..., subprocess.CompletedProcess[str]]

# A filter over the host, as container runtimes have them, refuses the call that the layer is made of: its name, and of its
# arguments index and value; `not` before a value means any other.
_HANDICAPPED = """
import errno, json, sys
import msgspec
from seccompy import ArgCmp, CmpOp, Filter
from byref_sandbox import Sandbox, SandboxUnavailable, probe
from byref_sandbox.jail.jail import require
handicap = Filter()
for name, conditions in json.loads(sys.argv[1]):
    arguments = [ArgCmp(index, CmpOp.NE if other else CmpOp.EQ, value) for index, other, value in conditions]
    handicap.errno(name, errno.EPERM, args=arguments or None)
handicap.load()
told = {}
layers = probe()
told["probe"] = msgspec.to_builtins(layers)
try:
    if sys.argv[2] == "ask":
        require(layers)
    else:
        with Sandbox() as sandbox:
            told["value"] = sandbox.run("1 + 1").value
            told["report"] = msgspec.to_builtins(sandbox.report())
except SandboxUnavailable as error:
    told["error"] = str(error)
print(json.dumps(told))
"""
MANDATORY = {
    "no_new_privs": [("prctl", [(0, False, 38)])],
    "undumpable": [("prctl", [(0, False, 4)])],
    "parent_death": [("prctl", [(0, False, 1)])],
    "limits": [("prlimit64", [(2, True, 0)])],
    "seccomp": [("seccomp", [])],
}
OPTIONAL = {
    "landlock": [("landlock_create_ruleset", [])],
    "namespaces": [("unshare", [])],
    "identity": [("setresuid", []), ("setresgid", []), ("setgroups", [])],
    "capabilities": [("setresuid", []), ("setresgid", []), ("setgroups", []), ("capset", [])],
}


def missing(layers: list[dict[str, object]]) -> dict[str, str]:
    return {str(layer["name"]): str(layer["detail"]) for layer in layers if not layer["in_force"]}


# Starting all of a sandbox takes seconds, asking a small process for its layers does not: what both refuse is the same.
_WAYS = [("ask", layer) for layer in MANDATORY] + [
    pytest.param("start", layer, marks=[] if layer == "seccomp" else pytest.mark.slow) for layer in MANDATORY
]


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(("how", "layer"), _WAYS)
def test_without_a_mandatory_layer_nothing_runs(script: Script, how: str, layer: str) -> None:
    done = script(_HANDICAPPED, json.dumps(MANDATORY[layer]), how)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert "value" not in told
    assert f"missing {layer} (" in told["error"]
    assert "not permitted" in told["error"] or "not allowed" in told["error"]
    assert "'language-only' is no security boundary" in told["error"]
    assert list(missing(told["probe"])) == [layer]


@pytest.mark.slow
@pytest.mark.parametrize("layer", OPTIONAL)
def test_without_an_optional_layer_it_works_and_says_so(script: Script, layer: str) -> None:
    if layer in {"identity", "capabilities"} and os.geteuid() != 0:
        pytest.skip("nobody but root has an identity to drop")
    done = script(_HANDICAPPED, json.dumps(OPTIONAL[layer]), "start")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["value"] == 2
    for layers in (told["probe"], told["report"]):
        assert layer in missing(layers)
        assert set(missing(layers)) <= {layer, "identity"}
        assert missing(layers)[layer]


# What no filter can take away is undone between the layer's preparation and its test.
_UNDONE = """
import os, sys
import msgspec
from seccompy import Filter
from byref_sandbox.zygote import boot
from byref_sandbox.jail.jail import Jail
jail = boot._begin("")
jail.prepare()
check = jail.check
def undo(terms):
    if sys.argv[1] == "environment":
        os.environ["SECRET"] = "x"
    else:
        os.open("/dev/null", os.O_RDONLY)
        filter = Filter()
        filter.errno("close", 1)
        filter.errno("close_range", 1)
        filter.load()
    return check(terms)
jail.check = undo
print(msgspec.json.encode(boot._check_in_child(jail)).decode())
"""


@pytest.mark.parametrize("layer", ["environment", "descriptors"])
def test_a_layer_without_effect_is_missed(script: Script, layer: str) -> None:
    done = script(_UNDONE, layer)
    assert done.returncode == 0, done.stderr
    layers = json.loads(done.stdout)
    if layer == "descriptors" and not layers:  # a newer C library ends a process whose descriptors it cannot close
        with pytest.raises(SandboxUnavailable, match="missing"):
            require(())
        return
    assert missing(layers)[layer] == "put in force, yet its test shows no effect"
    assert set(missing(layers)) <= {layer, "capabilities"}  # asked of a file, which has to be closed
    with pytest.raises(SandboxUnavailable, match=rf"missing {layer} \("):
        require(Layer(**each) for each in layers)


def test_every_layer_is_taken_away_somewhere() -> None:
    assert {*MANDATORY, *OPTIONAL, "environment", "descriptors"} == {layer.name for layer in probe()}
    assert {layer.name for layer in probe() if layer.mandatory} == {*MANDATORY, "environment", "descriptors"}


def test_a_machine_on_which_nothing_is_missing_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found, python = probe(), sys.executable
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert probe() == found
    monkeypatch.setattr(process, "_whole", {})
    with pytest.raises(SandboxUnavailable):
        require(probe())
    monkeypatch.setattr(sys, "executable", python)
    require(probe())


def test_a_layer_that_there_is_not_cannot_be_left_out() -> None:
    with pytest.raises(ValueError, match=r"unknown layers \['moat'\]"):
        Jail({"moat"})
