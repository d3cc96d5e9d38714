"""Measures torch_customccl against everything a user could pick instead, fairly: see docs/performance.md.

python -m benchmarks install    fetches and builds the optional peers
python -m benchmarks run        measures, writes results/*.json
python -m benchmarks report     draws plots and writes docs/performance.md
python -m benchmarks compare    two results, or two builds, by paired ratio
"""
