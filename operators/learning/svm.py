"""A linear support vector machine on a stream, with L2: the hinge loss is max(0, 1 - margin), labels as -1 and 1."""

from riprap.operators.learning import blockmath
from riprap.operators.learning.linear import LinearClassifier, LinearGradient


class Gradient(LinearGradient):
    """The processor of a linear SVM: subgradients of the hinge loss."""

    loss = blockmath.HINGE


class Model(LinearClassifier):
    """The sink of a linear SVM: one step per epoch.

    A hinge has no curvature but at its corner; the steps are those of logistic regression, whose loss is near.
    """
