"""How much may ride in each step of an engine; pure."""
