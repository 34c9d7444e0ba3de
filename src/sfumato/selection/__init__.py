"""How many clusters, how sure, and how far to trust the numbers."""

from .choose import Candidate, Choice, choose_n_clusters
from .resampling import Interval, Uncertainty, bootstrap
from .trials import CRITERIA, Trial
from .trust import Reliability, calibration_report, fit_temperature, temper

__all__ = [
    "CRITERIA",
    "Candidate",
    "Choice",
    "Interval",
    "Reliability",
    "Trial",
    "Uncertainty",
    "bootstrap",
    "calibration_report",
    "choose_n_clusters",
    "fit_temperature",
    "temper",
]
