"""z3 on problems of integers, bit vectors and arrays.

Terms are small nodes in a shared table, clauses and rows are vectors of some dozen to some hundred bytes that grow and
go, millions of them per second. z3 counts its memory: each block gets a header of its own, blocks up to 256 bytes are
put together in pieces of 8 KiB where their owner dies as a whole; the rest reaches malloc one by one. One thread.
"""
import random

from suite import catalog
from suite.context import checksum

SIZES = {"tiny": {"queens": [12], "holes": [6], "factors": [9], "swaps": [5]},
         "quick": {"queens": [18, 20], "holes": [7], "factors": [11, 13], "swaps": [6]},
         "full": {"queens": [18, 22], "holes": [7], "factors": [13], "swaps": [6]}}


def queens(size, draw):
    """Integers and differences: as many queens as rows, none attacks another."""
    lines = [f"(declare-const q{i} Int)(assert (and (>= q{i} 0) (< q{i} {size})))" for i in range(size)]
    lines += [f"(assert (and (distinct q{i} q{j}) (distinct (- q{i} q{j}) {i - j}) (distinct (- q{i} q{j}) {j - i})))"
              for i in range(size) for j in range(i)]
    return lines


def holes(size, draw):
    """Integers: more of them than there are values, no two the same."""
    return ([f"(declare-const p{i} Int)(assert (and (>= p{i} 1) (< p{i} {size})))" for i in range(size)]
            + [f"(assert (not (= p{i} p{j})))" for i in range(size) for j in range(i)])


def factors(bits, draw):
    """Bit vectors: two factors of a drawn number, if there are."""
    width, product = 2 * bits, draw.randrange(1 << 2 * bits - 2, 1 << 2 * bits - 1) | 1
    return [f"(declare-const x (_ BitVec {width}))(declare-const y (_ BitVec {width}))",
            f"(assert (= (bvmul x y) (_ bv{product} {width})))",
            f"(assert (and (bvugt x (_ bv1 {width})) (bvugt y x) (bvult y (_ bv{1 << bits} {width}))))"]


def swaps(size, draw):
    """Arrays: swapping i and j is swapping j and i, in a chain of swaps."""
    lines, last = ["(declare-const a (Array Int Int))"], {"f": "a", "g": "a"}
    for k in range(size):
        lines.append(f"(declare-const i{k} Int)(declare-const j{k} Int)")
        for side, x, y in (("f", f"i{k}", f"j{k}"), ("g", f"j{k}", f"i{k}")):
            old, last[side] = last[side], f"{side}{k}"
            lines.append(f"(define-fun {side}{k} () (Array Int Int) "
                         f"(store (store {old} {x} (select {old} {y})) {y} (select {old} {x})))")
    return [*lines, f"(assert (not (= {last['f']} {last['g']})))"]


def prepare(folder, scale):
    draw, lines = random.Random(1), []
    for problem in (queens, holes, factors, swaps):
        for size in SIZES[scale][problem.__name__]:
            lines += ["(reset)", *problem(size, draw), "(check-sat)"]
    (folder / "problems.smt2").write_text("\n".join(lines) + "\n")


def run(context):
    return checksum(context.finish(["z3", "-smt2", context.folder / "problems.smt2"]))


WORKLOAD = catalog.Program(name="z3", group="programs", needs=[("z3", "z3")], prepare=prepare, run=run,
                           sentence="z3 on integers, bit vectors and arrays: terms, clauses, rows")
