"""What makes an image stale."""

from dataclasses import replace

from workers.guest.recipe import TINY, guest_files, recipe_digest

FILES = {"init": b"#!/bin/sh\n"}


def test_a_recipe_that_did_not_change_keeps_its_digest():
    assert recipe_digest(TINY, "debian bookworm", FILES) == recipe_digest(replace(TINY), "debian bookworm", dict(FILES))


def test_a_change_of_recipe_script_or_release_changes_it():
    digests = {
        recipe_digest(TINY, "debian bookworm", FILES),
        recipe_digest(TINY, "debian trixie", FILES),
        recipe_digest(replace(TINY, modules=("virtio_pci",)), "debian bookworm", FILES),
        recipe_digest(TINY, "debian bookworm", {"init": b"#!/bin/sh\nset -e\n"}),
    }
    assert len(digests) == 4


def test_every_guest_script_names_its_shell():
    shells = (b"#!/bin/sh\n", b"#!/bin/busybox sh\n", b"#!/usr/lib/keepstate/sh\n")
    assert all(content.startswith(shells) for content in guest_files().values())
