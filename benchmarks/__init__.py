"""Benchmarks: each step of the flow against its peers, measured in the same run. `python -m benchmarks --help`."""
