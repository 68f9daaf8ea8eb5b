"""The node agent: stops offline work for online requests, serves devices to pods, reports what it observes."""
