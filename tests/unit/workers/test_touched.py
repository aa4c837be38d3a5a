"""The record of what a resume touched: small, bounded, and nothing but a hint whatever it says."""

import base64
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.restore.touched import FACT, MAX_PAGES, NAME, decode, encode, fact_of, units_to_have_first


def manifest(**facts: Any) -> Any:
    return SimpleNamespace(facts=facts)


@given(st.sets(st.integers(0, 1 << 26), min_size=1, max_size=200))
def test_what_is_noted_is_read_back(pages):
    assert decode(encode(np.array(sorted(pages)))).tolist() == sorted(pages)


def test_too_much_and_nothing_are_not_noted():
    assert encode(np.empty(0, np.int64)) == encode(np.arange(MAX_PAGES + 1)) == b""


@given(st.binary(max_size=200))
def test_bytes_that_nobody_noted_say_nothing_or_some_order(packed):
    assert len(decode(packed)) <= MAX_PAGES


def test_this_hosts_own_record_is_believed_before_the_manifests(host):
    other = base64.b64encode(encode(np.array([7]))).decode()
    assert units_to_have_first("ck_1", manifest(**{FACT: other})).tolist() == [7]
    own = host / "cache" / "touched" / "ck_1"
    own.parent.mkdir(parents=True)
    own.write_bytes(encode(np.array([1, 2])))
    assert units_to_have_first("ck_1", manifest(**{FACT: other})).tolist() == [1, 2]


@pytest.mark.parametrize("fact", [None, 3, "not base64!", "YWJj", ["a"]])
def test_a_manifest_that_says_nonsense_says_nothing(host, fact):
    assert units_to_have_first("ck_1", manifest(**{FACT: fact})).tolist() == []


def test_a_machine_that_was_never_resumed_has_no_fact(tmp_path):
    assert fact_of(tmp_path) == {}
    (tmp_path / NAME).write_bytes(b"x" * (1 << 20))
    assert fact_of(tmp_path) == {}, "a record that is too large stays out of the manifest"
