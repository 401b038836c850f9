"""Online logistic regression in River: learn_many, one step per micro-batch, a pandas data frame."""

import harness
import numpy as np
import pandas as pd
import river
from river import linear_model, optim

args = harness.arguments()
schedule = optim.schedulers.InverseScaling(args.learning_rate, 0.5)
model = linear_model.LogisticRegression(optimizer=optim.SGD(schedule), intercept_lr=schedule)
harness.begin()
for block in harness.micro_batches(args.data, args.items, args.micro_batch):
    names = [f"x{column}" for column in range(1, block.shape[1])]
    model.learn_many(pd.DataFrame(block[:, 1:], columns=names, copy=False), pd.Series(block[:, 0] == 1))
harness.end()
weights = np.array([model.weights[name] for name in names])
harness.report(
    args.items, harness.score_weights(weights, model.intercept, args.test), f"River {river.__version__}, learn_many"
)
