"""The QEMU driver: q35, memory as a private mapping of an image, disks as qcow2 overlays, qemu-ga in the guest."""
