"""The gates as functions, for a host that wants to know beforehand whether an output would fit."""

from byref.policy.gates import Reason, Verdict, byte_threshold, headroom, headroom_limit, media_tokens, per_output

__all__ = ["Reason", "Verdict", "byte_threshold", "headroom", "headroom_limit", "media_tokens", "per_output"]
