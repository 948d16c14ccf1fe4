"""Data on its way through the wall: how it is written on one side and read on the other."""
