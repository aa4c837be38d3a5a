"""`./keepstate bench fleet`: several hosts under random work and a fault every few seconds, and a judge that believes nobody.

guest     the program in each machine, and the model that tells from outside what it must hold
asking    requests that survive cuts, each with its key; every answer is judged by the table of refusals
ledger    what is known of each session: its state, and that of each of its checkpoints
acts      what a client does with one session, each act followed by what the ledger learns of it
clients   some of them at once, choosing by the seed
operator  moves that an operator asks for
faults    the table of faults, and when each comes; unwilling: a store that answers 503
judge     the end: every session answers, and nothing is left over
measured  the rows that are published
"""
