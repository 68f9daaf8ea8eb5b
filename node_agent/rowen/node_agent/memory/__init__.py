"""Memory of a device whose owner changes while its tenants run."""
