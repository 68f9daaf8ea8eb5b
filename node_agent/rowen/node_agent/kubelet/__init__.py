"""What the kubelet is asked and told: devices, slots, and the pods that have them."""
