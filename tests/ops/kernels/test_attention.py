"""Attention cases make sense, and what they must compute is known in three ways that agree."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tawa.sim import from_floats
from tests.cases.arrays import floats_of, make_arrays
from tests.cases.attention.builders import block_lists, lengths, resized
from tests.cases.attention.cases import bench_case, find, flops
from tests.cases.attention.numpy_reference import numpy_reference, one_head
from tests.cases.attention.problem import LOG2_E, Problem
from tests.cases.case import Specimen

# --- the list ---


def test_unknown_name_is_told_with_close_ones() -> None:
    with pytest.raises(KeyError, match="flex_gqa"):
        find("flex_")


def test_other_lengths_bring_what_follows_from_them() -> None:
    case = resized(find("two_loops_fp8e4nv_d64_full"), 100, 1000)
    assert (case.size("DIAGONAL"), case.size("SK_PADDED"), case.constexprs["EVEN"]) == (900, 1008, False)
    assert find("two_loops_fp8e4nv_d64_full").constexprs["EVEN"]


def test_bench_shapes_keep_tokens_and_width() -> None:
    case = bench_case("persistent", "fp16", 128, True, 1024)
    assert case.size("B*SQ") == 16384
    assert case.size("H*DIM") == 2048
    assert case.launch_grid() == (132,)
    assert flops(case) == flops(bench_case("two_loops", "fp16", 128, False, 1024)) / 2


@pytest.mark.parametrize("name", ["flex_d64", "flex_window", "flex_200x333"])
def test_listed_blocks_hold_every_visible_key_and_full_ones_no_other(name: str) -> None:
    case = find(name)
    problem, (bm, bn) = Problem.of(case), (case.size("BM"), case.size("BN"))
    seen = problem.visible(np.arange(case.size("TILES") * bm)[:, None], np.arange(case.size("BLOCKS") * bn)[None, :])
    seen &= np.arange(seen.shape[1])[None, :] < problem.keys
    lists = {
        kind: (np.reshape(counts, (-1, case.size("TILES"))), np.reshape(indices, (-1, *seen_shape(case))))
        for kind, (counts, indices) in block_lists(case, problem.window).items()
    }
    for tile, block in np.ndindex(*seen_shape(case)):
        part = seen[tile * bm : (tile + 1) * bm, block * bn : (block + 1) * bn]
        for head in range(case.size("B*H")):
            listed = {kind for kind, (n, at) in lists.items() if block in at[head, tile, : n[head, tile]]}
            assert listed == ({"full"} if part.all() else {"part"} if part.any() else listed - {"full"})


def seen_shape(case: Specimen) -> tuple[int, int]:
    return case.size("TILES"), case.size("BLOCKS")


# --- the references ---


def flash(problem: Problem, q: Any, k: Any, v: Any, slope: float, block: int = 48) -> tuple[Any, Any]:
    """One head by online softmax over blocks of keys, in float64."""
    rows = np.arange(q.shape[0])[:, None]
    m, total, acc = np.full(q.shape[0], -1e30), np.zeros(q.shape[0]), np.zeros((q.shape[0], v.shape[1]))
    for first in range(0, k.shape[0], block):
        keys = np.arange(first, min(first + block, k.shape[0]))[None, :]
        s = problem.scores(q @ k[first : first + block].T, rows, keys, slope, np.tanh)
        s = np.where(problem.visible(rows, keys), s, -np.inf)
        new = np.maximum(m, s.max(axis=1))
        p, alpha = np.exp2(s - new[:, None]), np.exp2(m - new)
        m, total, acc = new, total * alpha + p.sum(axis=1), acc * alpha[:, None] + p @ v[first : first + block]
    with np.errstate(divide="ignore"):
        return acc / np.where(total == 0, 1, total)[:, None], m + np.log2(total)


AGREE = ["two_loops_full_200x333", "two_loops_causal_333x200", "two_loops_window_333x200", "two_loops_full_1x1",
         "two_loops_alibi_causal", "two_loops_softcap_full", "two_loops_alibi_softcap_window"]  # fmt: skip


@pytest.mark.parametrize("name", AGREE)
def test_naive_and_online_softmax_agree(name: str) -> None:
    case = find(name)
    problem, arrays = Problem.of(case), floats_of(case, make_arrays(case))
    q, k, v = (arrays[name][0, 0] for name in ("q", "k", "v"))
    slope = float(arrays["slopes"][0]) if problem.alibi else 0.0
    o, lse = one_head(problem, q, k, v, slope, problem.diagonal, lambda p: p)
    again, lse_again = flash(problem, q, k, v, slope)
    assert np.allclose(o, again, rtol=1e-12, atol=1e-12)
    assert np.allclose(lse, np.where(np.isinf(lse), -np.inf, lse_again), rtol=1e-12)


def test_a_row_that_sees_no_key_gives_zero_and_minus_infinity() -> None:
    found = numpy_reference(case := find("two_loops_causal_333x200"), floats_of(case, make_arrays(case)))
    unseen = 333 - 200
    assert (found["o"][:, :, :unseen] == 0).all()
    assert np.isneginf(found["lse"][:, :, :unseen]).all()
    assert np.isfinite(found["lse"][:, :, unseen:]).all()


def test_a_key_ahead_of_the_diagonal_changes_nothing() -> None:
    case = find("one_loop_causal_200x333")
    arrays = floats_of(case, make_arrays(case))
    before = numpy_reference(case, arrays)["o"]
    arrays["k"][:, :, 300:] += 1
    changed = (numpy_reference(case, arrays)["o"] != before).any(axis=(0, 1, 3))
    assert not changed[: 300 - 133].any()
    assert changed[300 - 133 :].all()


@pytest.mark.parametrize(
    ("name", "form"), [("two_loops_fp16_d64_full", "fp16_d64_full"), ("two_loops_fp16_d64_causal", "fp16_d64_causal"),
                       ("two_loops_alibi_softcap_window", "every_option")])  # fmt: skip
def test_backward_is_the_gradient_of_forward(name: str, form: str) -> None:
    shrink = lengths({"B": 1, "H": 2, "HK": 1, "SQ": 5, "SK": 7, "DIM": 16})
    forward, dkdv, dq = (replace(find(it), sizes=shrink) for it in (name, f"dkdv_{form}", f"dq_{form}"))
    window = 3 if forward.constexprs["WINDOW"] else 0
    forward, dkdv, dq = (
        replace(
            case,
            constexprs={**case.constexprs, "WINDOW": window},
            tensors={name: replace(it, dtype="fp64") for name, it in case.tensors.items()},
        )
        for case in (forward, dkdv, dq)
    )
    inputs = make_arrays(dkdv)
    results = numpy_reference(forward, inputs)
    rows = {"lse": results["lse"], "delta": (results["o"] * inputs["do"]).sum(axis=3)}
    inputs |= {name: np.pad(it, ((0, 0), (0, 0), (0, dq.size("SP") - it.shape[2]))) for name, it in rows.items()}
    found = {**numpy_reference(dkdv, inputs), **numpy_reference(dq, inputs)}

    def loss(name: str, direction: Any, step: float) -> float:
        moved = {**inputs, name: inputs[name] + step * direction}
        return float((numpy_reference(forward, moved)["o"] * inputs["do"]).sum())

    for name in ("q", "k", "v"):
        direction = np.random.default_rng(1).standard_normal(inputs[name].shape)
        slope = (loss(name, direction, 1e-4) - loss(name, direction, -1e-4)) / 2e-4
        assert np.isclose((found[f"d{name}"] * direction).sum(), slope, rtol=1e-6)


def test_logarithms_are_base_two() -> None:
    problem = replace(Problem.of(find("two_loops_fp16_d64_full")), scale=1.0)
    one = np.ones((1, 1))
    _, lse = one_head(problem, one, np.array([[2.0], [2.0]]), np.ones((2, 1)), 0.0, 0, lambda p: p)
    assert np.isclose(lse[0], 2 * LOG2_E + 1)


PEERS = ["two_loops_fp16_d64_causal", "two_loops_causal_333x200", "two_loops_fp8e4nv_d128_full", "varlen_window",
         "varlen_fp8e4nv_d128_causal", "ragged_softcap", "two_parts_d192_128_causal", "ragged_d192_128_causal",
         "two_loops_alibi_softcap_window", "dkdv_gqa", "dq_causal_333x200", "added_full_200x333",
         "added_every_option", "dq_every_option",
         "gradient_rows_added", "dq_of_sums_64", "largest_of_keys", "dq_of_sums_singly",
         "flex_window", "tutorial_fp8e4nv_d128_full"]  # fmt: skip


@pytest.mark.parametrize("name", PEERS)
def test_torch_and_numpy_references_agree_and_wrong_results_are_judged_wrong(name: str) -> None:
    torch = pytest.importorskip("torch")
    from tests.cases import launch
    from tests.cases.arithmetic import Exact, SamePrecision
    from tests.cases.check import judge_all, reference_of

    case = find(name)
    tensors = launch.make_tensors(case, 0, "cpu")
    arrays = {
        key: it.numpy() if it.dtype == torch.int32 else from_floats(it.double().numpy(), case.tensors[key].dtype)
        for key, it in tensors.items()
    }
    exact, mine = reference_of(case, tensors, Exact()), numpy_reference(case, floats_of(case, arrays))
    assert set(exact) == set(mine) == set(launch.outputs(case))
    assert all(np.allclose(exact[key].numpy(), mine[key], rtol=1e-9, atol=1e-9) for key in exact)
    peer = reference_of(case, tensors, SamePrecision())
    assert judge_all(case, tensors, [peer, peer]).faults == ()
    for key in peer:
        wrong = {**peer, key: peer[key].clone()}
        last = wrong[key].view(-1)[-1:]
        last.nan_to_num_(posinf=0.0).add_(1)
        assert judge_all(case, tensors, [wrong]).faults
