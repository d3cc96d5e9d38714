"""What names and colors the parts of a Group may have."""

from __future__ import annotations

import numpy as np
from harness.rank import error_of
from shared import group


def test_a_group_divides_by_numbers_alone_and_refuses_a_bad_name_before_it_asks_the_others(ranks):
    def body(rank, size):
        with group(rank, size, "n" * 999) as made:
            bad = error_of(made.split, 0, name=5) if rank == 0 else None
            with made.split(True if rank == 0 else np.int64(1)) as part:  # a name of more than 1000 bytes, by default
                return bad, part.size(), part.group_desc

    first, second = ranks(2).run(body)
    assert first[0].is_a("ValueError") and "a group needs a name, not 5" in first[0].text
    assert first[1:] == second[1:] == (2, "n" * 999 + "/1")
