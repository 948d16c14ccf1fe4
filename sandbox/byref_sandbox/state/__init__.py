"""A session's names as one graph of objects: written at the end of a run, read at the start of the next one."""
