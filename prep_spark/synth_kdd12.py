"""Draws rows like those of KDD Cup 2012 track 2's training.txt: heavy-tailed ids, missing values, rare clicks.

Users come in runs of rows, as in the trace; adverts, queries and texts are drawn with a heavy tail; an unknown id is
0. In about 27 % of the rows something is unknown (AFX 6.1: 40 of 150 million rows), mostly the user. Clicks depend on
the advert and its position.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

URL_MAX = 18_445_899_849_984_000_000
AD_MIN, AD_MAX = 1_000_000, 22_238_277
ADVERTISER_MAX = 39_191
USER_MAX = 23_907_634
ADS = 40_000
ADVERTISERS = 8_000
IMPRESSIONS_MAX = 9_999

USER_RUN_ROWS = 5
USER_UNKNOWN = 0.225
SINGLE_IMPRESSION = 0.893
TWO_CLICKS = 0.1
CLICK_RATES = (0.062, 0.037, 0.03)
"""The click rates of an advert of mean quality at the positions 1, 2, 3; the mean over a trace is about 5 %."""

PLACES = ((1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (3, 3))
PLACE_SHARES = (0.306, 0.252, 0.256, 0.062, 0.062, 0.062)
"""Depth (adverts shown) and position, and how often they occur."""

PROBABILITIES = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1)
TEXT_IDS = {
    "query": (0.0116, (10, 19, 763, 35_249, 2_149_979, 12_215_803, 24_381_697, 26_243_605)),
    "keyword": (0.0117, (9, 17, 185, 1_935, 13_722, 62_833, 506_456, 1_249_783)),
    "title": (0.0165, (13, 27, 273, 4_907, 49_069, 259_552, 1_862_920, 4_051_439)),
    "description": (0.0165, (11, 22, 184, 2_153, 24_307, 159_606, 1_359_735, 3_171_828)),
}
"""The share of unknown ids, and quantiles of the others at PROBABILITIES; measured on the first 10,000 rows."""

AD_TEXT_BYTES = 36  # URL, AdID and AdvertiserID with their tabs
ROW = np.dtype(
    [
        ("click", "S2"),
        ("impression", "S5"),
        ("ad", f"S{AD_TEXT_BYTES}"),
        ("place", "S4"),
        *((name, [("high", "S4"), ("low", "S4"), ("end", "S1")]) for name in (*TEXT_IDS, "user")),
    ]
)
"""The text of one row; a separator follows each value."""


def generator(rng: np.random.Generator) -> Callable[[int], np.ndarray]:
    """A function that draws the given number of rows, as text padded with zero bytes."""
    ad_texts = _ad_texts(rng)
    ad_quality = (rng.random(ADS) * 2) ** 2
    impression_texts = np.array([f"{count}\t".encode() for count in range(IMPRESSIONS_MAX + 1)])
    place_texts = np.array([f"{depth}\t{position}\t".encode() for depth, position in PLACES])
    click_rates = np.array([CLICK_RATES[position - 1] for _, position in PLACES]) * 0.75  # the mean quality is 4/3
    place_bounds = np.cumsum(PLACE_SHARES)[:-1]
    digits = _digit_tables()

    def draw(rows: int) -> np.ndarray:
        made = np.empty(rows, ROW)
        ads = (rng.random(rows) ** 3 * ADS).astype(np.intp)
        places = np.searchsorted(place_bounds, rng.random(rows))
        impressions = _impressions(rng, rows)
        clicked = rng.random(rows) < click_rates[places] * ad_quality[ads]
        twice = clicked & (impressions > 1) & (rng.random(rows) < TWO_CLICKS)
        made["click"] = np.array([b"0\t", b"1\t", b"2\t"])[clicked.astype(np.intp) + twice]
        made["impression"] = impression_texts[impressions]
        made["ad"] = ad_texts[ads]
        made["place"] = place_texts[places]
        for name, (unknown, knots) in TEXT_IDS.items():
            _put_number(made[name], _text_ids(rng, rows, unknown, knots), digits, b"\t")
        _put_number(made["user"], _users(rng, rows), digits, b"\n")
        return made

    return draw


def _ad_texts(rng: np.random.Generator) -> np.ndarray:
    """URL, AdID and AdvertiserID of each advert; an advertiser has one URL."""
    urls = rng.integers(1, URL_MAX, ADVERTISERS, np.uint64, endpoint=True)
    advertisers = rng.integers(1, ADVERTISER_MAX, ADVERTISERS, endpoint=True)
    owners = rng.integers(0, ADVERTISERS, ADS)
    ads = rng.integers(AD_MIN, AD_MAX, ADS, endpoint=True)
    rows = zip(urls[owners].tolist(), ads.tolist(), advertisers[owners].tolist())
    return np.array([f"{url}\t{ad}\t{advertiser}\t".encode() for url, ad, advertiser in rows], f"S{AD_TEXT_BYTES}")


def _impressions(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Mostly 1, else at least 2 with P(n > k) falling as 1/k^2."""
    tail = 1 + (1 / np.sqrt(1 - rng.random(rows)))
    drawn = np.minimum(tail, IMPRESSIONS_MAX).astype(np.intp)
    return np.where(rng.random(rows) < SINGLE_IMPRESSION, 1, drawn)


def _text_ids(rng: np.random.Generator, rows: int, unknown: float, knots: tuple[int, ...]) -> np.ndarray:
    ids = np.interp(rng.random(rows), (0, *PROBABILITIES), (1, *knots)).astype(np.int32)
    ids[rng.random(rows) < unknown] = 0
    return ids


def _users(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Runs of one user's rows; unknown users come in runs too."""
    starts = rng.random(rows) < 1 / USER_RUN_ROWS
    starts[0] = True
    runs = int(np.count_nonzero(starts))
    users = (rng.random(runs) ** 2 * USER_MAX).astype(np.int32) + 1
    users[rng.random(runs) < USER_UNKNOWN] = 0
    return users[np.cumsum(starts) - 1]


def _digit_tables() -> np.ndarray:
    """Four digits of 0 to 9999 three times: with leading zeros, without, and without with nothing for 0."""
    padded = [b"%04d" % number for number in range(10_000)]
    plain = [b"%d" % number for number in range(10_000)]
    return np.array([*padded, *plain, b"", *plain[1:]], "S4")


def _put_number(place: np.ndarray, numbers: np.ndarray, digits: np.ndarray, end: bytes) -> None:
    """Write numbers below 10^8 as text, and `end` behind each."""
    high, low = np.divmod(numbers, 10_000)
    place["high"] = digits[high + 20_000]
    place["low"] = digits[low + 10_000 * (high == 0)]
    place["end"] = end
