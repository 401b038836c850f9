"""Feeds malformed messages to the gate of the network, and what is well formed but absurd to the tasks behind it.

    python tests/fuzz/fuzz_frames.py --count 1000000 --seed 1

Runs until so many messages were dropped by the gate. Cases come in sessions of 100: a fresh receiver of a random role
and scheme gets honest messages and, in between, mutations of them. Whatever is dropped must be counted, and nothing
may raise: the first exception ends the run with exit code 1 and the command that replays its session.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from fuzz_mutations import mutate, mutate_bundle, random_answer
from fuzz_receiver import ROLES, SCHEMES, Corpus, Receiver, bundled, make_corpus, packed, processor

from riprap.codec.ids import Seq

SESSION = 100
PROGRESS_EVERY_S = 5.0


def session(seed: int, number: int, corpus: Corpus) -> Counter[str]:
    """A hundred cases for one receiver; a count of what became of them, by reason where they were dropped."""
    rng = random.Random((seed << 40) + number)
    scheme = rng.randrange(len(SCHEMES))
    me = rng.choice(ROLES)
    receiver, messages = Receiver(me, SCHEMES[scheme]), iter(corpus[me, scheme])
    script, seqs, outcomes = corpus[me, scheme], Counter[tuple[int, str]](), Counter[str]()
    for _ in range(SESSION):
        if rng.random() < 0.1:
            receiver.disturb(rng.randrange(4), processor(rng.randrange(6)))
        if rng.random() < 0.1:
            outcomes[receiver.backward(random_answer(rng))] += 1
            continue
        plain = rng.random() < 0.2
        edge, sender, block = next(messages, None) or rng.choice(script) if plain else rng.choice(script)
        lane = edge.index, str(sender)
        block.seq = Seq(seqs[lane] + 1)
        if rng.random() < 0.3:
            behind = replace(block, seq=Seq(block.seq + 1))
            message = bundled(edge, sender, *([block] if plain else [block, behind]))
            found = receiver.forward(message if plain else mutate_bundle(rng, message))
        else:
            message = packed(edge, sender, block)
            found = receiver.forward(message if plain else mutate(rng, message))
        for outcome in found:
            seqs[lane] += outcome == "taken"
            outcomes[f"honest {outcome}" if plain else outcome] += 1
    drops = sum(receiver.intake.malformed.values())
    assert drops == outcomes["dropped"] + outcomes["honest dropped"], "a drop that was not counted"
    assert not outcomes["honest dropped"], receiver.intake.malformed
    return outcomes + Counter({f"dropped: {why}": n for why, n in receiver.intake.malformed.items()})


def run(count: int, seed: int, first: int, sessions: int | None) -> int:
    """Fuzz until `count` messages were dropped (or so many sessions are over); the exit code."""
    corpus, total, number = make_corpus(), Counter[str](), first
    started = told = time.monotonic()
    while total["dropped"] < count and (sessions is None or number < first + sessions):
        try:
            with np.errstate(all="ignore"):
                total += session(seed, number, corpus)
        except Exception:
            traceback.print_exc()
            print(f"FAILED; replay: python tests/fuzz/fuzz_frames.py --seed {seed} --first {number} --sessions 1")
            return 1
        number += 1
        if time.monotonic() - told > PROGRESS_EVERY_S:
            told = time.monotonic()
            print(f"\r{total['dropped']} of {count} dropped", end="", file=sys.stderr, flush=True)
    seconds = time.monotonic() - started
    cases = SESSION * (number - first)
    print(f"\n{cases} messages in {number - first} sessions, {cases / seconds:.0f} a second; no exception")
    for outcome, n in sorted(total.items(), key=lambda entry: -entry[1]):
        print(f"{n:10d}  {outcome}")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000_000, help="malformed messages to see dropped")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the session to start with")
    parser.add_argument("--sessions", type=int, default=None, help="at most so many sessions")
    given = parser.parse_args(arguments)
    return run(given.count, given.seed, given.first, given.sessions)


if __name__ == "__main__":
    sys.exit(main())
