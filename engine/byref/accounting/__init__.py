"""A conversation's tokens and costs: counted, estimated, calibrated by providers' usage, recorded and explained."""
