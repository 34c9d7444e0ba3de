"""How many clusters there are, and how far to trust the answer."""

from .choose import Candidate, Choice, choose_n_clusters
from .likelihood_ratio import LikelihoodRatio, bootstrap_likelihood_ratio
from .resampling import (
    ParameterUncertainty,
    Stability,
    Uncertainty,
    bootstrap,
    parameter_intervals,
    stability,
)
from .trust import Reliability, Verdict, calibration_report, fit_temperature, temper, verdict

__all__ = [
    "Candidate", "Choice", "LikelihoodRatio", "ParameterUncertainty", "Reliability", "Stability",
    "Uncertainty", "Verdict", "bootstrap", "bootstrap_likelihood_ratio", "calibration_report",
    "choose_n_clusters", "fit_temperature", "parameter_intervals", "stability", "temper", "verdict",
]  # fmt: skip
