"""Logistic regression on a stream, with L2: minimises log(1 + exp(-margin)) for class 1, log(1 + exp(margin)) for 0."""

from riprap.operators.learning import blockmath
from riprap.operators.learning.linear import LinearClassifier, LinearGradient


class Gradient(LinearGradient):
    """The processor of logistic regression: gradients of the logistic loss."""

    loss = blockmath.LOGISTIC


class Model(LinearClassifier):
    """The sink of logistic regression: one step per epoch."""
