"""What envelopes show, judged by questions about the data that they stand for."""
