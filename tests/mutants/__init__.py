"""Mutation testing: faults are put into the package one at a time, and the tests must notice."""
