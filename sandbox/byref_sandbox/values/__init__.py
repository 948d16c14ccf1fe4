"""Data on its way through the wall: one side writes it, the other reads it and trusts none of it."""
