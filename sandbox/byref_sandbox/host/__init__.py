"""The host's side of the wall: requests, processes, and the reading of replies that may be hostile."""
