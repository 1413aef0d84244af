"""The library of the book: every layer that a chapter teaches is defined here once."""

__version__ = "0.1.0"
