"""The page a run leaves behind: one self-contained HTML file, and the same figures as PNG and SVG.

from kvicreg.report.page import write_report
from kvicreg.report.figures import write_figures
"""
