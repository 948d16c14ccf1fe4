"""Benchmarks: ratios to baselines measured in the same run. `python -m benchmarks [name…]`."""
