"""Groups: every unit that an image holds is in exactly one, with its place in its pack."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints_app.store import LocalBackend
from tests.store_kit import content, quick_directory, save
from tests.support.lazy_store import plan_of
from workers.lazy.groups import grouped


@settings(deadline=None, max_examples=15)
@given(st.lists(st.sampled_from([0, 1, 2, 3, 7]), min_size=1, max_size=300), st.integers(0, 3))
def test_each_unit_that_is_held_is_in_one_group_and_no_other_is(kinds, seed):
    memory = content(8, seed)[np.array(kinds)]
    memory[np.array(kinds) == 0] = 0
    with quick_directory() as directory:
        backend = LocalBackend(directory)
        plan = plan_of(backend, save(backend, None, memory).manifest)
    groups = grouped(plan.packs, plan.locations, plan.indexes)
    assert sorted(groups.targets.tolist()) == np.flatnonzero(plan.locations >= 0).tolist()
    for group in range(len(groups)):
        sources, targets = groups.units(np.array([group]))
        assert (groups.of_unit[targets] == group).all()
        assert (plan.locations[targets] & 0xFFFF == sources).all()
    assert (groups.of_unit[plan.locations < 0] == -1).all()


def test_a_run_is_of_one_pack_and_no_longer_than_was_asked(tmp_path):
    backend = LocalBackend(tmp_path)
    plan = plan_of(backend, save(backend, None, content(9000)).manifest)
    groups = grouped(plan.packs, plan.locations, plan.indexes)
    runs = list(groups.runs(np.arange(len(groups)), 7))
    assert np.concatenate(runs).tolist() == list(range(len(groups)))
    assert max(map(len, runs)) == 7
    assert all(len(set(groups.packs[run].tolist())) == 1 for run in runs)


def test_groups_of_units_keep_the_order_in_which_they_are_wanted(tmp_path):
    backend = LocalBackend(tmp_path)
    plan = plan_of(backend, save(backend, None, content(200)).manifest)
    groups = grouped(plan.packs, plan.locations, plan.indexes)
    assert groups.of(np.array([150, 151, 0, 152])).tolist() == [int(groups.of_unit[150]), int(groups.of_unit[0])]
