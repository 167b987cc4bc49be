"""Suites that break kvicreg on purpose; `python -m tests.reliability.run` runs them at any size."""
