#!/bin/sh
# rootdisk.sh WORK DISK CODENAME PACKAGES OWNER: the one step of a build that needs root's rights.
# In WORK: sources.list, apt.conf, overlay/ (files of ours). Leaves the sparse ext4 file DISK (it exists, with its size)
# and WORK/installed (names and versions of packages); WORK/root is removed. Run it in a mount namespace of its own: mmdebstrap
# mounts /proc, /sys and devices below WORK/root, and a killed one would leave them there.
set -eu
umask 022
work=$1
disk=$2
codename=$3
packages=$4
owner=$5
root=$work/root

TMPDIR=$work mmdebstrap --mode=root --variant=essential --format=directory --include="$packages" --aptopt="$work/apt.conf" \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/info/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/lintian/*' \
    "$codename" "$root" "$work/sources.list"
dpkg-query --admindir="$root/var/lib/dpkg" --show --showformat='${Package} ${Version}\n' >"$work/installed"

# Traces of the host and of the installation.
rm -rf "$root/etc/apt/apt.conf.d/99mmdebstrap" "$root/etc/apt/sources.list" "$root/etc/resolv.conf" "$root/var/lib/apt/lists" \
    "$root"/var/log/* "$root"/var/cache/* "$root"/tmp/* "$root"/run/* "$root"/boot/* "$root"/dev/*
mkdir -p "$root/var/cache/apt/archives/partial" "$root/var/lib/apt/lists/partial"
echo keepstate >"$root/etc/hostname"
printf '127.0.0.1 localhost keepstate\n::1 localhost\n' >"$root/etc/hosts"
: >"$root/etc/machine-id"
cp -RP "$work/overlay/." "$root/"
# A third of the relay's start would be its compilation, at each boot of an emulated machine.
chroot "$root" python3 -I -m compileall -q --invalidation-mode unchecked-hash /usr/lib/keepstate/relay

# No journal, and no table that the guest's kernel would still have to clear: a disk is resumed only together with the
# memory that belongs to it, so there is no crash to recover from, and what the kernel writes by itself would be saved
# with each checkpoint.
mke2fs -q -t ext4 -O ^has_journal,^orphan_file -E lazy_itable_init=0,root_owner=0:0 -m 0 -L keepstate -d "$root" "$disk"
rm -rf --one-file-system "$root"
chown "$owner" "$work/installed"
