"""Draws ratings from 1 to 5 that follow from hidden factors of users and items, with some noise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

RATINGS_A_USER = 20
ITEMS_A_USER = 0.25
RANK = 4
NOISE = 0.1
MEAN, LEAST, MOST = 3.0, 1.0, 5.0


def generator(rng: np.random.Generator, ratings: int) -> Callable[[int], bytes]:
    """A function that draws the given number of ratings, as lines `user item rating`, of as many in all.

    A pair of user and item may come twice.
    """
    users = max(1, ratings // RATINGS_A_USER)
    items = max(1, int(users * ITEMS_A_USER))
    tastes, kinds = rng.normal(0, 1, (users, RANK)), rng.normal(0, 1 / np.sqrt(RANK), (items, RANK))

    def chunk(lines: int) -> bytes:
        user, item = rng.integers(0, users, lines), rng.integers(0, items, lines)
        values = MEAN + (tastes[user] * kinds[item]).sum(axis=1) + rng.normal(0, NOISE, lines)
        rows = zip(user.tolist(), item.tolist(), np.clip(values, LEAST, MOST).tolist(), strict=True)
        return b"".join(b"%d %d %.3f\n" % row for row in rows)

    return chunk
