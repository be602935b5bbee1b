"""The version of rolltape."""

__version__ = "0.1.0"
