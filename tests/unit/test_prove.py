"""`./keepstate prove`: every file of a gate is run under its gate's name."""

from tests.gates.__main__ import HERE, files


def test_every_gate_is_run_under_a_name_that_can_be_typed() -> None:
    found = files()
    assert {"0", "pin", "egress", "upgrade", "store"} <= set(found)
    assert all(name.isalnum() for name in found)
    run = [file for each in found.values() for file in each]
    assert sorted(run) == sorted([*map(str, HERE.glob("test_gate_*.py")), str(HERE / "store")])
