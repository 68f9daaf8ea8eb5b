"""Names that the measuring process and the simulated nodes agree on."""

NAMESPACE, SYSTEM, AGENTS = "bench", "rowen-system", "rowen-agent"
"""Of jobs, services and pods; of operator and scheduler; of the nodes' heartbeats."""
USERS = {
    "operator": f"system:serviceaccount:{SYSTEM}:rowen-operator",
    "scheduler": f"system:serviceaccount:{SYSTEM}:rowen-scheduler",
    "agents": "bench-agents",
    "kubelets": "bench-kubelets",
}
"""Who asks the API server, by part. The measuring process is its administrator, and counted with nobody."""
DEVICES, SLOTS = 8, 2
"""Of a node; harvest slots of each device."""
NODES_OF_A_SERVICE = 20
HELD = "hold"
"""Jobs whose names begin so run until they are told to end."""


def node_name(number: int) -> str:
    """Of a simulated node."""
    return f"node-{number:04}"


def service_name(number: int) -> str:
    """Of the OnlineService whose engine is on the node of that number."""
    return f"chat-{number // NODES_OF_A_SERVICE}"


def engine_name(node: str) -> str:
    """Of the engine's pod there."""
    return f"engine-{node}"
