"""What a run leaves behind: result.json and everything made from it."""
