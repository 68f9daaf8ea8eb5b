"""An engine that leaves offline work a share of its device while it serves (Harli)."""
