"""What every machine's network looks like: the same for all, since no two ever meet.

Names of a saved guest's memory among them (its ARP table, its connections): they hold after a resume on any host only because they never
change.
"""

GUEST_ADDRESS, GATEWAY_ADDRESS, NETMASK = "10.0.2.15", "10.0.2.2", "255.255.255.0"
GUEST_MAC, GATEWAY_MAC = "52:54:00:12:34:56", "52:54:00:12:34:02"
GATEWAY_PORT, EGRESS_PORT = 80, 3128
#: As on a loopback, for there is no cable in between: an emulated guest sends a long request at half the cost of 1500.
MTU = 65000
