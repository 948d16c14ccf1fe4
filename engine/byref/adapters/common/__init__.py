"""Code that the adapters of several frameworks share."""
