"""A complete machine without a virtual machine, for tests: a process with private memory, a guest of host commands, and faults on
request.
"""
