"""The second wall: what the kernel keeps from the processes that run code."""
