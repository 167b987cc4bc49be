"""What experiments share: cells and how they are run, tables, drawing, pages."""

from experiments.common import tables
from experiments.common.cells import CONTROLS, Cell, Row, Split, splits
from experiments.common.drawing import BLUE, COLOURS, GREEN, GREY, MARKS, ORANGE, PURPLE, RED, figure_in, legend, panels
from experiments.common.experiment import Experiment, Result, Section
from experiments.common.job import Job, write

__all__ = [
    "BLUE", "COLOURS", "CONTROLS", "GREEN", "GREY", "MARKS", "ORANGE", "PURPLE", "RED", "Cell", "Experiment", "Job",
    "Result", "Row", "Section", "Split", "figure_in", "legend", "panels", "splits", "tables",
    "write",
]  # fmt: skip
