"""Logistic regression on a stream, with L2: minimises log(1 + exp(-margin)) for class 1, log(1 + exp(margin)) for 0."""

from operators import blockmath
from operators.linear import LinearClassifier, LinearGradient


class Gradient(LinearGradient):
    """The processor: gradients of the logistic loss."""

    loss = blockmath.LOGISTIC


class Model(LinearClassifier):
    """The sink: one step per epoch. Options: learning_rate, l2, intercept, fading."""
