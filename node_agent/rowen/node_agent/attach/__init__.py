"""How engines and tenants come in: sockets, credentials, cgroups."""
