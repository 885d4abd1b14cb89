"""Modes, tolerances, and what the packages say of themselves."""

from __future__ import annotations

import pytest

from bench.corpus.entry import AllClose, MeanError, RmsRatio
from bench.corpus.modes import MODES, spread
from bench.corpus.packages import PACKAGES, find_entry
from bench.corpus.running import short


def test_every_package_is_pinned_and_says_where_it_comes_from() -> None:
    for package in PACKAGES:
        assert package.home.startswith("https://") and package.licence
        has_sources = package.requires or package.sources or package.archives or package.files
        assert has_sources or package.module.startswith("torch.")
        pinned = [*package.requires, *package.sources]
        own = [it for it in pinned if "==" in it]
        assert own or not pinned
        assert all(len(it.address.rsplit("/", 1)[1]) == 40 for it in package.archives)
        assert all("/main/" not in address for address in package.files.values())


def test_entries_can_be_told_apart_and_found() -> None:
    for package in PACKAGES:
        keys = [entry.key for entry in package.entries]
        assert len(keys) == len(set(keys))
        assert all(find_entry(package.name, key)[1].key == key for key in keys)
    with pytest.raises(KeyError):
        find_entry("pack", "gemm")


@pytest.mark.parametrize(
    ("most", "wanted"), [(0, [0, 1, 2, 3, 4]), (9, [0, 1, 2, 3, 4]), (1, [0]), (2, [0, 4]), (3, [0, 2, 4])]
)
def test_configurations_are_spread_over_the_list(most: int, wanted: list[int]) -> None:
    assert spread(range(5), most) == wanted


def test_files_are_named_without_the_folders_of_a_machine() -> None:
    assert short("the load at /home/me/site/pack/ops/gemm.py:151 may") == "the load at pack/ops/gemm.py:151 may"
    assert short("/a/pack/ops/gemm.py:7") == "pack/ops/gemm.py:7"
    assert short("gemm.py:7 and 2/3") == "gemm.py:7 and 2/3"


def test_modes_are_options_of_tawa() -> None:
    from tawa.plan import PlanOptions

    for options in MODES.values():
        PlanOptions.from_mapping(options)


def test_what_is_not_finite_is_an_infinite_error() -> None:
    torch = pytest.importorskip("torch")
    wanted, nan = torch.ones(4), torch.tensor([1.0, float("nan"), 1.0, 1.0])
    for tolerance in (AllClose(1e-2, 0.0), RmsRatio(1e-2), MeanError(1e-2)):
        assert tolerance.error(wanted, wanted) == 0.0
        assert tolerance.error(wanted, nan) == float("inf")
        assert tolerance.error(wanted, wanted + 1) > tolerance.limit
