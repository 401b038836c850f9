"""The services that jobs need on this host, and the way of commands to those of a cluster."""
