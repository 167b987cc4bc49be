"""What experiments share: cells and how they are run, tables, drawing, pages."""

from experiments.common import tables
from experiments.common.cells import CONTROLS, Cell, Row, Split, splits
from experiments.common.experiment import Experiment, Result
from experiments.common.job import Job, size_setting, write

__all__ = ["CONTROLS", "Cell", "Experiment", "Job", "Result", "Row", "Split", "splits", "tables", "write"]
__all__ += ["size_setting"]
