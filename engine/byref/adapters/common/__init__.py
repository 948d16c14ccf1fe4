"""What adapters of several frameworks share."""
