"""Repairs SGLang launches that fail: reads the log and the installed source, proposes and applies a minimal patch."""

__version__ = "0.1.0"
