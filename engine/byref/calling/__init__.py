"""Calls of the host's functions by model-written code: each is checked, made once, and journaled before the code goes on."""
