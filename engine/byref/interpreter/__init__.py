"""A run of code, stage by stage: inputs, run, persistence, reply."""
