"""The way of a run of code: what it needs, the run, what it leaves, the reply."""
