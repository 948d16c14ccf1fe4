"""Windows and prices of models: what a host asks that wants them without a conversation."""

from byref.accounting.models import ModelInfo, Models, Price, context_window, cost, input_cost, price

__all__ = ["ModelInfo", "Models", "Price", "context_window", "cost", "input_cost", "price"]
