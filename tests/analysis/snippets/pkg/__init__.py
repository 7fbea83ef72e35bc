"""A package whose names travel through re-exports; importing it would write a file, which the tests watch for."""

import os

open(os.environ["TRIAGE_TEST_IMPORTED"], "w").close()
