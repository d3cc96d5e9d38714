"""The version, in its one place: setup.py, CMake and the C++ library read it from here."""

__version__ = "0.1.0"
