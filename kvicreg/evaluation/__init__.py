"""What an encoder has learnt: each part is a function of (features or encoder, data) with a plain result."""

from kvicreg.evaluation.clusters import ClusterResult, clustering
from kvicreg.evaluation.intervals import Interval, PairedDifference, bootstrap_interval, paired_bootstrap
from kvicreg.evaluation.probes import (
    LinearProbe,
    ProbeResult,
    few_label_probe,
    fit_linear_probe,
    knn,
    linear_probe,
    sgd_probe,
)
from kvicreg.measures.features import FeatureCache, extract

__all__ = [
    "ClusterResult",
    "FeatureCache",
    "Interval",
    "LinearProbe",
    "PairedDifference",
    "ProbeResult",
    "bootstrap_interval",
    "clustering",
    "extract",
    "few_label_probe",
    "fit_linear_probe",
    "knn",
    "linear_probe",
    "paired_bootstrap",
    "sgd_probe",
]
