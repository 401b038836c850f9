"""Online logistic regression in NumPy: one step of gradient descent per micro-batch, on one thread."""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import math

import harness
import numpy as np

args = harness.arguments()
harness.begin()
weights, intercept = None, 0.0
for epoch, block in enumerate(harness.micro_batches(args.data, args.items, args.micro_batch), start=1):
    x, y = block[:, 1:], block[:, 0]
    if weights is None:
        weights = np.zeros(x.shape[1])
    residual = 1 / (1 + np.exp(-(x @ weights + intercept))) - y
    rate = args.learning_rate / math.sqrt(epoch)
    weights -= rate * (x.T @ residual / len(x))
    intercept -= rate * residual.mean()
harness.end()
harness.report(args.items, harness.score_weights(weights, intercept, args.test), f"NumPy {np.__version__}")
