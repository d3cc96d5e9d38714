"""Conformance kit: judges any ``torch.distributed`` backend against a written contract.

Run it with ``python -m torch_customccl.conformance --backend gloo``. Needs torch and rich; the HTML page needs jinja2.
"""

SUITE_NAME = "c10d-conformance"
SUITE_VERSION = "1.0"
SCHEMA_VERSION = 1
