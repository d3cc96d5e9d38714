"""The families of cases. Each module generates its cases and holds their bodies."""
