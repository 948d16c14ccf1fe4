"""InfiAgent DABench: questions about CSV files, answered by programs that were written from envelopes."""
