"""Names of stored data in the arguments of tools, and the data that they stand for."""
