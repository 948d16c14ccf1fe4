"""Describing a stream of bytes of any length while it passes by once, in bounded memory."""

from byref.jsonscan.scanner import Skimmed, Skimmer

__all__ = ["Skimmed", "Skimmer"]
