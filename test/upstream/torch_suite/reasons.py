"""Tests that gloo passes and customccl cannot pass, each with a reason that no change of ours can take away."""

REASONS = {
    "test_ddp_logging_data_cpu": (
        "It compares DDP's log entry `backend_name`, which torch fills with its name for the *kind* of the group, "
        "with the backend's name. The kind of every backend that is not built into torch is `custom`."
    ),
}
