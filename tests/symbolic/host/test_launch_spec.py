"""What a launch needs: descriptors, conditions, sizes of its grid."""

from __future__ import annotations

import json

from tawa.symbolic.host.expr import Argument, Condition, Number, add, multiply
from tawa.symbolic.host.launch_spec import DescriptorSpec, LaunchSpec

M, K = Argument(1, "M"), Argument(2, "K")
SPEC = DescriptorSpec(0, multiply(K, Number(4)), (M, K), (add(K, Number(8)), Number(1)), (64, 32), "f16", 2, 9)


def test_a_descriptor_is_an_address_sizes_and_strides() -> None:
    assert SPEC.evaluate((4096, 10, 20)) == (4096 + 160, (10, 20), (28, 1))


def test_the_first_broken_condition_is_named() -> None:
    spec = LaunchSpec((SPEC,), (Condition(M, "why", 1), Condition(K, "rows are aligned", multiple=16)))
    assert spec.broken((0, 1, 32)) is None
    broken = spec.broken((0, 1, 30))
    assert broken is not None and str(broken) == "K % 16 == 0" and broken.reason == "rows are aligned"


def test_a_launch_survives_json() -> None:
    spec = LaunchSpec((SPEC,), (Condition(M, "why", 1, None, 16),), axes=2, on_one=3)
    assert LaunchSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


def test_a_persistent_kernel_has_a_few_programs_for_each_sm_and_never_more_than_tiles() -> None:
    assert LaunchSpec(axes=2).programs((100, 3), 132) == 132
    assert LaunchSpec(axes=2, on_one=2).programs((100, 3), 132) == 264
    assert LaunchSpec(axes=2, on_one=3).programs((100, 3), 132) == 300
