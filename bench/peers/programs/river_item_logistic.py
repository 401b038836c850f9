"""Online logistic regression in River: learn_one for every item, a dictionary of its features."""

import harness
import numpy as np
import river
from river import linear_model, optim

args = harness.arguments()
model = linear_model.LogisticRegression(optimizer=optim.SGD(0.01), intercept_lr=0.01)
names: list[str] = []
harness.begin()
for block in harness.micro_batches(args.data, args.items, args.micro_batch):
    names = names or [f"x{column}" for column in range(1, block.shape[1])]
    for label, *values in block.tolist():
        model.learn_one(dict(zip(names, values)), label == 1)
harness.end()
weights = np.array([model.weights[name] for name in names])
harness.report(
    args.items, harness.score_weights(weights, model.intercept, args.test), f"River {river.__version__}, learn_one"
)
