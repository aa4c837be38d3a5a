"""A tap device in the calling thread's network namespace, by ioctl: a program started for each step would cost more than all of them."""

import fcntl
import os
import socket
import struct

from workers.machine.network.addresses import GATEWAY_ADDRESS, GATEWAY_MAC, GUEST_ADDRESS, GUEST_MAC, MTU, NETMASK

CLONE_DEVICE = "/dev/net/tun"
NAME = b"guest0"
LOOPBACK = b"lo"
TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI, IFF_UP, IFF_RUNNING = 0x2, 0x1000, 0x1, 0x40
SIOCSIFFLAGS, SIOCSIFADDR, SIOCSIFNETMASK, SIOCSIFMTU, SIOCSIFHWADDR, SIOCSARP = 0x8914, 0x8916, 0x891C, 0x8922, 0x8924, 0x8955
ARPHRD_ETHER, ATF_COMPLETE, ATF_PERMANENT = 1, 0x2, 0x4


def open_tap() -> int:
    """A descriptor of a new device, up, with its addresses. Raises OSError; the namespace must then be dropped.

    Without a header of offloads (IFF_VNET_HDR): a guest's features are then the same where a host has no tap to give it.
    """
    fd = os.open(CLONE_DEVICE, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", NAME, IFF_TAP | IFF_NO_PI))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            _up(control, LOOPBACK)
            fcntl.ioctl(control, SIOCSIFHWADDR, struct.pack("16sH6s16x", NAME, ARPHRD_ETHER, _mac(GATEWAY_MAC)))
            fcntl.ioctl(control, SIOCSIFMTU, struct.pack("16si20x", NAME, MTU))
            fcntl.ioctl(control, SIOCSIFADDR, struct.pack("16s16s8x", NAME, _address(GATEWAY_ADDRESS)))
            fcntl.ioctl(control, SIOCSIFNETMASK, struct.pack("16s16s8x", NAME, _address(NETMASK)))
            _up(control, NAME)
            fcntl.ioctl(control, SIOCSARP, _neighbour())  # the guest need never be asked where it is
    except BaseException:
        os.close(fd)
        raise
    return fd


def _up(control: socket.socket, name: bytes) -> None:
    fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH22x", name, IFF_UP | IFF_RUNNING))


def _neighbour() -> bytes:
    hardware = struct.pack("H6s8x", ARPHRD_ETHER, _mac(GUEST_MAC))
    return struct.pack("16s16si16s16s", _address(GUEST_ADDRESS), hardware, ATF_COMPLETE | ATF_PERMANENT, b"", NAME)


def _address(address: str) -> bytes:
    return struct.pack("=HH4s8x", socket.AF_INET, 0, socket.inet_aton(address))


def _mac(address: str) -> bytes:
    return bytes.fromhex(address.replace(":", ""))
