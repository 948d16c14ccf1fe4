"""Results pass at once, before they are in the ledger, only if they surely pass whole."""

from __future__ import annotations

from byref.gateway.accounts import passes_surely
from byref.gateway.config import default_policy


def test_what_passes_surely_is_small_and_as_it_came() -> None:
    small, policy = {"content": [{"type": "text", "text": "x"}]}, default_policy({})
    assert passes_surely(policy, "t", small)
    assert not passes_surely(policy, "t", {"content": [{"type": "text", "text": "x" * 5000}]})
    might_be_kept = {"content": [{"type": "text", "text": "x" * 600}]}
    assert not passes_surely(policy, "t", might_be_kept)
    assert passes_surely(default_policy({"keep_tokens": None}), "t", might_be_kept)
    assert not passes_surely(policy, "t", {"structuredContent": {"display_instructions_for_model": "do"}})
    assert not passes_surely(default_policy({"max_output_bytes": 20}), "t", small)
    assert not passes_surely(default_policy({"per_tool": {"t": {"mapper": "."}}}), "t", small)
