"""What can go wrong with guest images, in one exception."""


class ImageError(Exception):
    """An image could not be built, found or trusted. The text says what happened, what did not, and what to do next."""
