"""One state of LOCA-bench, made and judged by LOCA-bench itself; run by its own Python: `python state.py CHECKOUT TASK NUMBER FOLDER`.

Prints the instruction and the servers as one line of JSON, waits for a line, and prints what the judge says.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

CONFIGURATIONS = "task-configs/final_256k_set_config.json"


def main(checkout: str, task: str, number: str, folder: str) -> None:
    """Make the state, wait, judge it."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # it prints as it goes
    os.chdir(checkout)
    sys.path.insert(0, checkout)
    os.environ["PYTHONPATH"] = checkout  # for what it starts
    workspace = Path(folder, "agent_workspace")
    workspace.mkdir(parents=True)

    def placed(given: dict[str, Any]) -> dict[str, Any]:
        places = {"{task_workspace}": folder, "{agent_workspace}": str(workspace)}
        for place, path in places.items():
            given = {
                key: value.replace(place, path) if isinstance(value, str) else value for key, value in given.items()
            }
        return given

    every = json.loads(Path(checkout, CONFIGURATIONS).read_text())["configurations"]
    chosen = [one for one in every if one["name"] == task][int(number)]
    module, _, name = chosen["env_class"].rpartition(".")
    environment = getattr(importlib.import_module(module), name)(task_dir=folder, **placed(chosen["env_params"]))
    servers: dict[str, Any] = {}
    for server, given in chosen["mcp_servers"].items():
        parameters = placed(given["params"]) | {"task_workspace": folder, "agent_workspace": str(workspace)}
        servers |= _loader(checkout).build_server_config(given["type"], parameters, server_name=server)
    print(json.dumps({"instruction": environment._get_instructions(), "servers": servers}), file=answers, flush=True)
    sys.stdin.readline()
    _, reward, _, _, about = environment.step("claim_done")
    print(json.dumps({"reward": reward, "why": str(about.get("error"))}), file=answers, flush=True)


def _loader(checkout: str) -> Any:
    """Return the module that says how its servers are started, without the packages of agents that its package imports."""
    path = Path(checkout, "gem/tools/mcp_server/config_loader.py")
    spec = importlib.util.spec_from_file_location("config_loader", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main(*sys.argv[1:])
