"""For tests of an app that embeds byref: models that play a script, and what their conversation may be expected to have become.

The fixtures are in `byref.testing.plugin`. Who writes an interpreter, a token counter or a store tests it by
`byref.testing.interpreters`, `byref.testing.counters` and `byref.stores.contract`.
"""

from byref.testing.clients import AsyncScriptedClient, ScriptedClient
from byref.testing.expectations import assert_routes, assert_tokens
from byref.testing.providers import ScriptedProvider

__all__ = ["AsyncScriptedClient", "ScriptedClient", "ScriptedProvider", "assert_routes", "assert_tokens"]
