"""The paper's theory, tables and figures, and our own studies: one file each, run by `python -m experiments NAME`."""
