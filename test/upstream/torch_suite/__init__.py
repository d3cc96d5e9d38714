"""Runs torch.testing._internal.distributed.distributed_test, which ships in every torch wheel, for a backend by name.

rewrite   loads that file with its lists of backend names opened, in memory
cases     its test class, as ranks in processes of their own, with every exit code checked
worker    a process that runs one test after the other for one backend and number of ranks
runner    the other end of a worker: hard limits, and a fresh worker where one was lost
results   outcomes on disk
table     outcomes as docs/upstream-tests.md
reasons   why a test that gloo passes cannot pass
"""
