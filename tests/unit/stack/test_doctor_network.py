"""What the doctor says of the machines' network."""

import os
from pathlib import Path

import pytest

from keepstate_site.stack.doctor import network
from keepstate_site.stack.doctor.finding import Finding, Verdict


def finding() -> Finding:
    (found,) = network.network()
    return found


def test_a_user_who_is_not_root_is_told_that_machines_reach_no_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert (finding().verdict, "not root" in finding().text, "no model gateway" in finding().text) == (Verdict.WARN, True, True)


def test_a_host_without_the_tap_device_is_told_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(network, "CAPABILITIES", {})
    monkeypatch.setattr(network, "TUN", tmp_path / "tun")
    assert f"{tmp_path}/tun cannot be opened" in finding().text
    (tmp_path / "tun").touch()
    assert finding().verdict is Verdict.OK


def test_a_container_that_holds_back_its_roots_rights_is_told_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(network, "CAPABILITIES", {63: "net_admin"})
    assert "lacks net_admin" in finding().text
