"""`./keepstate doctor`: what is missing and how to get it. Changes nothing, and runs without the requirements installed."""
