"""The relay: what a program in the guest has as its provider, on 127.0.0.1. Standard library alone; it runs in the guest.

A program's connection to it lies inside the machine and survives a save and a resume. The relay keeps each call's id, its request, and how
much of the answer the program has; where its own connection to the gateway breaks, it goes on from there, and the program sees no break.
"""
