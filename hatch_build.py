"""Compiles byref's modules in C, if there is a compiler; without one byref is installed all the same, and is slower.

It is hatchling's hook, and `python hatch_build.py FOLDER` builds wheels for x86-64 and aarch64 by zig (`make wheels`).
`CC` names another compiler. docs/decisions/compiled-inference.md says why.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # only the hook needs it
    BuildHookInterface = object

ROOT = Path(__file__).parent
MODULES = ("byref/describe/_columns", "byref/jsonscan/_marks")
SUFFIX = ".abi3.so"
FLAGS = ("-O2", "-fPIC", "-shared", "-std=c11", "-Wall", "-Wextra")
ZIG = {
    "manylinux_2_17_x86_64": "x86_64-linux-gnu.2.17",
    "manylinux_2_17_aarch64": "aarch64-linux-gnu.2.17",
}
"""Platforms of wheels, and what zig calls them."""


class BuildHook(BuildHookInterface):  # type: ignore[misc]
    """Adds the compiled modules to a wheel, or puts them into the checkout that an editable wheel points to."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile; if that fails, say so once and go on."""
        self.folder = Path(tempfile.mkdtemp(prefix="byref-build-"))
        try:
            made = {f"{module}{SUFFIX}": compile_(module, self.folder) for module in MODULES}
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", None) or str(error)
            self.app.display_warning(f"byref is installed without its compiled part, which is optional: {said[-500:]}")
            return
        if version == "editable":
            for place, target in made.items():
                shutil.copy(target, ROOT / "engine" / f"{place}.new")
                (ROOT / "engine" / f"{place}.new").replace(ROOT / "engine" / place)
            return
        platform = os.environ.get("BYREF_PLATFORM") or sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{platform}"
        build_data["force_include"].update({str(target): place for place, target in made.items()})

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled, which is in the wheel by now."""
        shutil.rmtree(self.folder, ignore_errors=True)


def compile_(module: str, folder: Path, *flags: str) -> Path:
    """Compile a module to a file in a folder. Raises OSError if there is no compiler, CalledProcessError if it fails."""
    compiler = shlex.split(os.environ.get("CC") or next(filter(shutil.which, ("cc", "gcc", "clang")), "cc"))
    headers = {f"-I{sysconfig.get_path(name)}" for name in ("include", "platinclude")}
    target = folder / f"{Path(module).name}{SUFFIX}"
    command = [*compiler, *FLAGS, *flags, *sorted(headers), str(ROOT / "engine" / f"{module}.c"), "-o", str(target)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return target


def main(folder: str) -> None:
    """Build a wheel for each platform of `ZIG`; fail if one cannot be compiled."""
    for platform, zig in ZIG.items():
        environment = os.environ | {"CC": f"{sys.executable} -m ziglang cc -target {zig}", "BYREF_PLATFORM": platform}
        build = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", folder, str(ROOT)]
        subprocess.run(build, check=True, env=environment)
        if not list(Path(folder).glob(f"byref-*-{platform}.whl")):
            raise SystemExit(f"the wheel for {platform} has no compiled part")


if __name__ == "__main__":
    main(sys.argv[1])
