"""Where few jobs of one priority wait, their places are chosen together: the most promised throughput that there is.

Otherwise, and where that is not better, each has its best place in the queue's order.
"""
