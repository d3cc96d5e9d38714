import pytest
from meeting import Meeting


@pytest.fixture
def meeting(tmp_path):
    (tmp_path / "run").mkdir()
    meeting = Meeting(tmp_path / "run")
    yield meeting
    for process in meeting.started:
        process.kill()
        process.wait()
