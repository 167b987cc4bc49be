"""What experiments share: cells and how they are run, tables, drawing, pages."""

from experiments.common import tables
from experiments.common.cells import CONTROLS, Cell, Row, Split, splits
from experiments.common.experiment import Experiment, Result, Section
from experiments.common.job import Job, write

__all__ = ["CONTROLS", "Cell", "Experiment", "Job", "Result", "Row", "Section", "Split", "splits", "tables", "write"]
