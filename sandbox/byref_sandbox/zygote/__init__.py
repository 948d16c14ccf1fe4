"""The processes behind the wall that runs are forked from."""
