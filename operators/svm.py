"""A linear support vector machine on a stream, with L2: the hinge loss is max(0, 1 - margin), labels as -1 and 1."""

from operators import blockmath
from operators.linear import LinearClassifier, LinearGradient


class Gradient(LinearGradient):
    """The processor: subgradients of the hinge loss; labels in the data are 0 and 1."""

    loss = blockmath.HINGE


class Model(LinearClassifier):
    """The sink: one step per epoch. Options: learning_rate, l2, intercept, fading."""
