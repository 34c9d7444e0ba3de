"""The table of models, used by the package, the command line, the reference pages and the tests.

Nothing is imported here, so that ``import sfumato`` and ``sfumato --help`` are fast.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MODELS", "Model"]


class Model(NamedTuple):
    """An estimator: where it is defined, its command-line name, and its input."""

    name: str  # name of the public class
    module: str  # its module, relative to sfumato.models
    command: str | None  # its command-line name; None for transformers
    evidence: tuple[str, ...]  # "features", "similarity", "labelings", "counts"; usual one first
    summary: str  # when to use it, in one line


# Name, module, command (- for none) and evidence of a model; below it, when to use it.
TABLE = """
PairwiseProbabilisticClustering pairwise.estimator pairwise features,similarity
    a similarity matrix, or features through a neighbour graph; compact or curved clusters
EvidenceAccumulation consensus.estimator consensus features,labelings
    the best default for features, and the consensus of many clusterings
ClusteringEnsemble consensus.ensemble - features
    many clusterings of the same objects, as input to a consensus
MixtureEnsemble consensus.mixtures - features
    soft partitions by many small mixtures, as input to a consensus
CompletelyPositiveFactorization factorization completely-positive features,similarity
    a similarity matrix, factorized after doubly stochastic scaling
SpectralClustering spectral spectral features,similarity
    a similarity matrix or neighbour graph; clusters of any shape, quickly
FuzzyCMeans fuzzy.estimator fuzzy-c-means features
    round clusters of similar size in few features; very fast
GaussianMixture gaussian gaussian-mixture features
    elliptical clusters that overlap, weights, missing values, a density
StudentMixture student student-mixture features
    elliptical clusters with outliers or heavy tails, missing values
FactorMixture factor factor-mixture features
    elliptical clusters in many features, correlated through a few factors
MixedMixture mixed mixed-mixture features
    tables with numbers, counts and categories side by side, missing values
DirectionalMixture directional directional-mixture features
    directions: embeddings and profiles of which only the angles count
DirichletProcessMixture dirichlet_process.estimator dirichlet-process features,counts
    an unknown number of clusters in features, counts or yes/no columns
DiscriminativeClustering discriminative.estimator discriminative features
    features with a known class: clusters that are most informative about it
InformationMaximization discriminative.information information-maximization features
    clusters of similar size, with borders where there are few objects
InformationBottleneck bottleneck information-bottleneck counts
    a table of counts: clusters of rows that keep their information about columns
"""


def _model(row: str, summary: str) -> Model:
    name, module, command, evidence = row.split()
    return Model(name, module, command.strip("-") or None, tuple(evidence.split(",")), summary)


_LINES = [line.strip() for line in TABLE.strip().splitlines()]
MODELS = tuple(map(_model, _LINES[::2], _LINES[1::2]))
