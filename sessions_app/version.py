"""Which KeepState this is; a test holds it to the project file."""

BUILD = "0.1.0"
