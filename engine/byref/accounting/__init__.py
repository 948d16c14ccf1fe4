"""A conversation's tokens and costs: what is counted, estimated, calibrated by a provider's usage, written down and explained."""
