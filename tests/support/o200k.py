"""The encoding o200k_base as tiktoken itself makes it, of the vocabulary that is installed."""

from __future__ import annotations

import functools

import tiktoken

from byref.accounting import tokens


@functools.cache
def encoding() -> tiktoken.Encoding:
    return tiktoken.Encoding(
        "o200k_base", pat_str="|".join(tokens._O200K_SPLIT), mergeable_ranks=tokens._read_ranks(), special_tokens={}
    )
