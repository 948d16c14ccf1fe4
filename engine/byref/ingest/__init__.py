"""The way of a tool's output: prepared, planned, staged, committed; and the result that the model reads."""
