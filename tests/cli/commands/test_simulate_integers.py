"""``tawa simulate`` on whole numbers of every width, with and without a sign."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result

from tests.cases.small import integer_kernels

pytestmark = pytest.mark.usefixtures("without_ptx")

KERNELS = integer_kernels.__file__
Tawa = Callable[..., Result]
BITS = (8, 16, 32, 64)
TYPES = [f"{sign}{bits}" for sign in "iu" for bits in BITS]


def simulated(tawa: Tawa, kernel: str, grid: str, const: str, out: Path, **values: str) -> dict[str, np.ndarray]:
    """The tensors after a run of the specialised kernel, which has the bits of the unspecialised one."""
    arguments = [part for name, value in values.items() for part in ("--arg", f"{name}={value}")]
    options = ["--grid", grid, "--const", const, "--option", "only_if_faster=False", "--save", str(out)]
    result = tawa("simulate", f"{KERNELS}:{kernel}", *arguments, *options)
    assert result.exit_code == 0, result.output
    assert "Tawa's kernel and the unspecialised program" in result.stdout
    return {name.removeprefix("after."): it for name, it in np.load(out).items() if name.startswith("after.")}


@pytest.mark.parametrize("element", TYPES)
def test_results_of_every_type_are_stored_by_a_descriptor(tawa: Tawa, tmp_path: Path, element: str) -> None:
    values = {"a": "randint(-100,100):128x128:i8:box=64x64", "b": "randint(-100,100):64x128:i8:box=64x64"}
    values |= {"c": f"zeros:128x64:{element}:box=64x64", "K": "128", "TILES": "2"}
    found = simulated(tawa, "stored_by_descriptor", "1", "BM=64,BN=64,BK=64", tmp_path / "out.npz", **values)
    sums = found["a"].astype(np.int32) @ found["b"].astype(np.int32).T
    assert found["c"].dtype == np.dtype(f"{element[0]}{int(element[1:]) // 8}")
    assert (found["c"] == (sums >> 8).astype(found["c"].dtype)).all()


def test_scores_of_whole_numbers_are_simulated(tawa: Tawa, tmp_path: Path) -> None:
    values = {"q": "randint(-9,10):64x64:i8:box=64x64", "k": "randint(-9,10):128x64:i8:box=64x64"}
    values |= {"v": "randn:128x64:f16:box=64x64", "o": "nan:64x64:f16:box=64x64", "L": "128", "TILES": "1"}
    values |= {"qs_ptr": "rand:16:f32", "ks_ptr": "rand:16:f32"}
    found = simulated(tawa, "scores", "1", "BM=64,BN=64,D=64", tmp_path / "out.npz", **values)
    assert not np.isnan(found["o"]).any()


@pytest.mark.parametrize("said", ["", "u8", "--sig"])
def test_bytes_without_a_sign_stay_so(tawa: Tawa, tmp_path: Path, said: str) -> None:
    """Of a file, as an argument says, and as the signature says."""
    lot = np.random.default_rng(0)
    x, w = lot.integers(-3, 4, (64, 128)).astype(np.float16), lot.integers(0, 256, (64, 64)).astype(np.uint8)
    for name, array in {"x": x, "w": w if said != "--sig" else w.view(np.int8)}.items():
        np.save(tmp_path / f"{name}.npy", array)
    kernel = f"{KERNELS}:nibbles"
    weights = f"w_ptr={tmp_path}/w.npy" + (":u8" if said == "u8" else "")
    sig = ["--sig", "w_ptr=*u8:16"] if said == "--sig" else []
    arguments = [f"x_ptr={tmp_path}/x.npy", weights, "y_ptr=nan:64x64:f32", "N=64", "K=128"]
    options = ["--grid", "1,1", "--const", "BM=64,BN=64,BK=64", "--option", "only_if_faster=False"]
    more = [part for it in arguments for part in ("--arg", it)]
    result = tawa("simulate", kernel, *sig, *more, *options, "--save", str(tmp_path / "out.npz"))
    assert result.exit_code == 0, result.output
    nibbles = np.stack([w & 15, w >> 4], -1).reshape(64, 128).astype(np.float32) - 8
    assert (np.load(tmp_path / "out.npz")["after.y_ptr"] == x.astype(np.float32) @ nibbles.T).all()


def test_the_type_of_a_result_is_shown_with_its_sign(tawa: Tawa) -> None:
    arguments = ["a=randint(0,9):64x64:i8:box=64x64", "b=randint(0,9):64x64:i8:box=64x64", "K=64", "TILES=1"]
    arguments += ["c=zeros:64x64:u16:box=64x64"]
    more = [part for it in arguments for part in ("--arg", it)]
    result = tawa("simulate", f"{KERNELS}:stored_by_descriptor", "--grid", "1", *more, "--const", "BM=64,BN=64,BK=64")
    assert result.stdout.split()[:3] == ["c", "64x64", "u16"]
