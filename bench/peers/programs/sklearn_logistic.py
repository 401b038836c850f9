"""Online logistic regression in scikit-learn: SGDClassifier.partial_fit, which steps once per item."""

import harness
import sklearn
from sklearn.linear_model import SGDClassifier

args = harness.arguments()
harness.begin()
model = SGDClassifier(loss="log_loss", learning_rate="invscaling", eta0=0.05, power_t=0.25, alpha=1e-6)
for block in harness.micro_batches(args.data, args.items, args.micro_batch):
    model.partial_fit(block[:, 1:], block[:, 0], classes=[0.0, 1.0])
harness.end()
result = harness.score_weights(model.coef_[0], model.intercept_[0], args.test)
harness.report(args.items, result, f"scikit-learn {sklearn.__version__}")
