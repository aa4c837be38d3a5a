"""The rules of what is kept."""
