"""The paper's theory, tables and figures, made again by one command each."""
