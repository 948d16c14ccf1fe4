"""What a program says before it runs: the names it reads and changes, what it needs, whether it is plain."""
