"""Measures that compare or describe clusterings; both sides may be labels or memberships."""

from .agreement import (
    CalibrationCurve,
    Estimate,
    adjusted_mutual_information,
    adjusted_rand_index,
    brier_score,
    calibration_curve,
    contingency_bayes_factor,
    matched_accuracy,
    normalized_mutual_information,
    pair_confusion,
    pair_f1,
    pair_precision,
    pair_recall,
    rand_index,
)
from .validity import (
    ConsensusDistribution,
    consensus_distribution,
    fuzzy_silhouette,
    partition_coefficient,
    partition_entropy,
    silhouette,
    xie_beni,
)

__all__ = [
    "CalibrationCurve", "ConsensusDistribution", "Estimate", "adjusted_mutual_information",
    "adjusted_rand_index", "brier_score", "calibration_curve", "consensus_distribution",
    "contingency_bayes_factor", "fuzzy_silhouette", "matched_accuracy",
    "normalized_mutual_information", "pair_confusion", "pair_f1", "pair_precision", "pair_recall",
    "partition_coefficient", "partition_entropy", "rand_index", "silhouette", "xie_beni",
]  # fmt: skip
