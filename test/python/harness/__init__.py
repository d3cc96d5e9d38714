"""What the Python tests stand on: ranks as processes, expected values by formula, guarded buffers, leak checks.

pool, worker, remote   run a test's body inside every rank of a warm or fresh set of processes
rank                   what a body uses inside its rank
oracle                 inputs and expected values from (rank, index, dtype)
guarded, layouts       tensors inside poisoned buffers, in every memory layout
programs               whole programs as ranks, where interpreter start and exit are the subject
footprint              what a test must not leave behind
"""
