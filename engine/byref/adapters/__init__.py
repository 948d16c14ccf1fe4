"""byref inside agent frameworks: one module for each, imported by its name and needing its extra, as `byref[strands]`."""
