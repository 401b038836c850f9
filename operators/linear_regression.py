"""Linear regression on a stream, with L2: minimises half the squared difference between prediction and label."""

from operators import blockmath
from operators.linear import LinearGradient, LinearModel


class Gradient(LinearGradient):
    """The processor: gradients of the squared loss."""

    loss = blockmath.SQUARED


class Model(LinearModel):
    """The sink: one step per epoch. Options as for every linear model.

    The steps diverge when learning_rate is above 2 / (largest eigenvalue of the features' second moments).
    """

    statistics = ("loss",)

    def __init__(
        self, *, learning_rate: float = 0.1, l2: float = 0.0, intercept: bool = True, fading: float = 0.9
    ) -> None:
        super().__init__(learning_rate=learning_rate, l2=l2, intercept=intercept, fading=fading)
