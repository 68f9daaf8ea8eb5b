"""An API server with etcd and nothing else, for tests and benchmarks: no kubelet, no kube-scheduler, RBAC on."""
