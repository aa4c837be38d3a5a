"""A machine's network: a namespace of its own with one tap device in it, and no way from there to anywhere else."""
