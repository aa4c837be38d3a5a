"""A fleet of several hosts on one machine, each of whose parts can be killed, paused and brought back."""
