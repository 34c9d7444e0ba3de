"""How many clusters, how sure, and how far to trust the numbers."""

from .choose import Candidate, Choice, choose_n_clusters
from .likelihood_ratio import LikelihoodRatio, RatioTest, bootstrap_likelihood_ratio
from .parameters import ParameterUncertainty, parameter_intervals
from .resampling import Interval, Uncertainty, bootstrap
from .stability import Stability, stability
from .trials import CRITERIA, Trial
from .trust import Reliability, calibration_report, fit_temperature, temper
from .verdict import Verdict, verdict

__all__ = [
    "CRITERIA",
    "Candidate",
    "Choice",
    "Interval",
    "LikelihoodRatio",
    "ParameterUncertainty",
    "RatioTest",
    "Reliability",
    "Stability",
    "Trial",
    "Uncertainty",
    "Verdict",
    "bootstrap",
    "bootstrap_likelihood_ratio",
    "calibration_report",
    "choose_n_clusters",
    "fit_temperature",
    "parameter_intervals",
    "stability",
    "temper",
    "verdict",
]
