"""What an adapter says when its framework is not installed."""

from __future__ import annotations

from byref.errors import ConfigurationError


def missing(module: str, package: str, extra: str) -> ConfigurationError:
    """Return the error for a host that imports `module` without `package`, which `byref[extra]` installs."""
    return ConfigurationError(f"{module} needs {package}: pip install 'byref[{extra}]'")
