"""placeholder"""
from typing import Any
def available() -> bool: return False
def render(results: list[Any]) -> str: return ""
