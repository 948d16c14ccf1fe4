"""Windows and prices of models, for a host that needs them without a conversation."""

from byref.accounting.models import ModelInfo, Models, Price, context_window, cost, input_cost, price

__all__ = ["ModelInfo", "Models", "Price", "context_window", "cost", "input_cost", "price"]
