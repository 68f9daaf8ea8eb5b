"""Names that more than one component must agree on."""

GROUP = "rowen.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
CATEGORY = "rowen"

# Server-side apply field managers, one per component.
OPERATOR_MANAGER = "rowen.dev/operator"
SCHEDULER_MANAGER = "rowen.dev/scheduler"
AGENT_MANAGER = "rowen.dev/agent"

FINALIZER = "rowen.dev/cleanup"

# Extended resources served by the node agent through the kubelet's device plugin API.
ONLINE_RESOURCE = "rowen.dev/online"
HARVEST_RESOURCE = "rowen.dev/harvest"
RIDE_RESOURCE = "rowen.dev/ride"  # a seat in the engine of a device: a job that is computed there

# Labels and annotations on pods.
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGER = "rowen"
"""Value of that label on what Rowen makes."""
SERVICE_LABEL = "rowen.dev/service"
JOB_LABEL = "rowen.dev/job"
JOB_UID_LABEL = "rowen.dev/job-uid"
ATTEMPT_LABEL = "rowen.dev/attempt"
ASSIGNMENT_ANNOTATION = "rowen.dev/assignment"
DEVICES_ANNOTATION = "rowen.dev/devices"
HARVEST_MEMORY_ANNOTATION = "rowen.dev/harvest-memory"  # an engine's `harvest.memory`, as JSON
SERVED_ANNOTATION = "rowen.dev/served"  # of an engine that co-serves: `service.served.served_digest`
GENERATION_ANNOTATION = "rowen.dev/generation"  # of the OnlineService that a Deployment was made from

ENGINE_CONTAINER = "engine"
WORKER_CONTAINER = "worker"
WORKER_CPU = "100m"  # what a worker requests; it computes on its devices' cores

# Set by the device plugin in a tenant's container, where the gate library is at LIBRARY_FILE.
CONTAINER_DIRECTORY = "/run/rowen"
LIBRARY_FILE = f"{CONTAINER_DIRECTORY}/librowen.so"
PLUGIN_DIRECTORY = f"{CONTAINER_DIRECTORY}/plugin"
PRELOAD_ENV = "LD_PRELOAD"
PYTHON_PATH_ENV = "PYTHONPATH"
LIBRARY_ENV = "ROWEN_LIBRARY"
ENGINE_SOCKET_ENV = "ROWEN_ENGINE_SOCKET"  # of each of its devices, separated by colons, as the tenants' below
TENANT_SOCKETS_ENV = "ROWEN_TENANT_SOCKETS"
ENGINE_RIDE_SOCKET_ENV = "ROWEN_ENGINE_RIDE_SOCKET"  # where the engine takes riders in
RIDE_SOCKET_ENV = "ROWEN_RIDE_SOCKET"  # where a job asks for its engine

# Set by the operator in an engine's or a job's container with a `memoryLimit`: bytes that it may have of the pool.
POOL_BYTES_ENV = "ROWEN_POOL_BYTES"

# Set by the operator in the container of an engine that co-serves: `ride.terms.RideTerms` as JSON.
RIDE_TERMS_ENV = "ROWEN_RIDE_TERMS"
# Set by it in the container of an engine beside whose requests offline work goes on: `ride.terms.SpatialTerms`.
SPATIAL_TERMS_ENV = "ROWEN_SPATIAL_TERMS"

# Set by the operator in a job's container.
JOB_SPEC_ENV = "ROWEN_JOB_SPEC"
ATTEMPT_ENV = "ROWEN_ATTEMPT"
JOB_UID_ENV = "ROWEN_JOB_UID"
ENGINE_URL_ENV = "ROWEN_ENGINE_URL"  # of the serving engine that a batch's rows ride in

# Set by the operator in the container of an engine that co-serves, and in that of a batch that rides: the name of the
# engine's pod. The engine says it with its health, since another pod may have its address one day.
ENGINE_POD_ENV = "ROWEN_ENGINE_POD"
ENGINE_POD_HEADER = "X-Rowen-Pod"

VOLUMES_DIRECTORY = "/volumes"
SECRETS_DIRECTORY = "/secrets"
TERMINATION_LOG = "/dev/termination-log"

# A node's agent renews the coordination Lease of its node's name, in the agent's own namespace, so often; without a
# renewal for so long its offline work stands still, and the scheduler gives its assignments away.
HEARTBEAT_SECONDS = 10.0
NODE_LEASE_SECONDS = 30
# A report is written so often while offline work is attached, or figures move: progress is measured between reports.
PROGRESS_SECONDS = 20.0
# The longest time between two reports; the report's window where that is shorter.
REPORT_SECONDS = 60.0
# How old the last report of a node that lives on can be, the way to the scheduler and a second try with it: after it
# the node gets no new jobs, and no heartbeat vouches for the report.
LATE_SECONDS = 2.0 * REPORT_SECONDS
