"""Tables, plots and docs/performance.md from results files."""
