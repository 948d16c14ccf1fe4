"""The fixtures of the gateway's tests."""

from gateway_kit import liars, module_place, npm, place

__all__ = ["liars", "module_place", "npm", "place"]
