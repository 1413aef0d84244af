"""Exercises: what a student's notebook needs is here; what an instructor needs is in the modules beside it.

A student's notebook imports `open_exercises` and nothing else, so this file
loads neither nbgrader nor any package that Colab lacks.
"""

from tutorial_lib.teaching.checking import Wrong, open_exercises

__all__ = ["Wrong", "open_exercises"]
