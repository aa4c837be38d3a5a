"""Namespaces of this host's machines, as places of the gateway."""

import socket
from pathlib import Path

from workers.gateway.places import Place, found_in
from workers.machine.network.addresses import GATEWAY_ADDRESS
from workers.machine.network.listen import listen_inside


class Namespaces:
    """`directory` is where machines' networks are (workers/machine/network/namespace.py). To listen needs CAP_SYS_ADMIN."""

    def __init__(self, directory: Path):
        self._directory = directory

    def found(self) -> set[Place]:
        return found_in(self._directory)

    def listen(self, place: Place, port: int) -> socket.socket:
        return listen_inside(self._directory / place.name, GATEWAY_ADDRESS, port)
