"""What the pods of an engine serve, as one word on them: while they are replaced, some serve what was before."""

import hashlib
import json

from rowen.crds.service.online_service import Engine


def served_digest(engine: Engine) -> str:
    """SHA-256 of the model's reference and the arguments, in hexadecimal digits: equal where both are."""
    served = [engine.model.reference, *engine.args]
    return hashlib.sha256(json.dumps(served).encode()).hexdigest()
