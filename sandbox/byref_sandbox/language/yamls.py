"""`yaml` as the language has it, where PyYAML is installed: plain values, both ways.

PyYAML's other loaders make objects of classes that a text names, and its classes can be taught to. So there is one loader, and one
dumper, whatever code asks for; the classes that it may name stand for them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any, Final

from byref_sandbox.code.words import words
from byref_sandbox.language.facades import stand_in
from byref_sandbox.language.files import BUFFERS
from byref_sandbox.language.refusal import NotAllowed

_LOADERS: Final = ("SafeLoader", "FullLoader", "Loader", "CSafeLoader", "CFullLoader", "CLoader")
_DUMPERS: Final = ("SafeDumper", "Dumper", "CSafeDumper", "CDumper")
_OPTIONS: Final = words("""default_style default_flow_style canonical indent width allow_unicode line_break explicit_start explicit_end
    version sort_keys""")


def yaml_names() -> dict[str, Any]:
    """Return the names of `yaml`; raise ImportError where PyYAML is not installed."""
    yaml: Any = importlib.import_module("yaml")
    loaders = {name: stand_in(yaml.SafeLoader, "use yaml.safe_load()") for name in _LOADERS}
    dumpers = {name: stand_in(yaml.SafeDumper, "use yaml.safe_dump()") for name in _DUMPERS}

    def load_all(stream: Any, Loader: Any = None) -> Iterator[Any]:  # noqa: N803
        if Loader is not None and Loader not in loaders.values():
            raise NotAllowed("this loader of yaml is not available", "use yaml.safe_load(text)")
        return iter(list(yaml.load_all(_text(stream), Loader=yaml.SafeLoader)))

    def load(stream: Any, Loader: Any = None) -> Any:  # noqa: N803
        if Loader is not None and Loader not in loaders.values():
            raise NotAllowed("this loader of yaml is not available", "use yaml.safe_load(text)")
        return yaml.load(_text(stream), Loader=yaml.SafeLoader)

    def dump_all(documents: Any, stream: Any = None, Dumper: Any = None, **options: Any) -> str | None:  # noqa: N803
        if Dumper is not None and Dumper not in dumpers.values():
            raise NotAllowed("this dumper of yaml is not available", "use yaml.safe_dump(value)")
        for name in options:
            if name not in _OPTIONS:
                raise NotAllowed(f"yaml.dump({name}=...) is not available", f"there are: {', '.join(sorted(_OPTIONS))}")
        if stream is not None and type(stream) not in BUFFERS:
            raise NotAllowed("yaml.dump() needs a file opened as text", "without one it returns the text")
        text: str = yaml.dump_all(list(documents), Dumper=yaml.SafeDumper, **options)
        if stream is None:
            return text
        stream.write(text)
        return None

    def dump(data: Any, stream: Any = None, Dumper: Any = None, **options: Any) -> str | None:  # noqa: N803
        return dump_all([data], stream, Dumper, **options)

    def safe(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda given, stream=None, **options: function(given, stream, **options)

    return {
        **loaders,
        **dumpers,
        "load": load,
        "load_all": load_all,
        **dict.fromkeys(("safe_load", "full_load"), lambda stream: load(stream)),
        **dict.fromkeys(("safe_load_all", "full_load_all"), lambda stream: load_all(stream)),
        "dump": dump,
        "dump_all": dump_all,
        "safe_dump": safe(dump),
        "safe_dump_all": safe(dump_all),
        "YAMLError": yaml.YAMLError,
        "__version__": yaml.__version__,
    }


def _text(stream: Any) -> str | bytes:
    found = stream.read() if type(stream) in BUFFERS else stream
    if isinstance(found, str):
        return str.__str__(found)
    if isinstance(found, bytes):
        return bytes.__getitem__(found, slice(None))
    raise TypeError(f"yaml.load() takes a text, bytes or an open file, not {type(stream).__name__}")
