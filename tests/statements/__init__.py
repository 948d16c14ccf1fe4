"""What the reference systems' documents promise, one test or more for each statement, by its ID."""
