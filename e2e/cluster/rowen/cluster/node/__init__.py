"""The nodes of the local cluster, and the wires between them."""
