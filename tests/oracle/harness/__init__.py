"""The oracle: what the real validation of an installed sglang release does with a launch, on a machine without GPUs.

Runs in the release's own interpreter (Python 3.10 or later) and needs nothing but what is installed there. See README.md.
"""
